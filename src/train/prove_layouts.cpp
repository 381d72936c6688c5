#include "train/prove_layouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "layout/schedule.h"
#include "parallel/arrangement.h"
#include "train/prove_task.h"

namespace longhaul::train {
namespace {

using layout::Axis;
using recipe::ParallelOptions;

constexpr Axis kAxes[] = {Axis::kDp, Axis::kTp, Axis::kPp, Axis::kCp, Axis::kEp, Axis::kEtp};

layout::Mesh mesh_of(const ParallelOptions& parallel) { return arrangement_of(ProofLayout{.parallel = parallel}).mesh; }

// ---- what can be chosen beside the mesh

struct Choice {
  std::string key;
  std::vector<std::string> values;
  bool (*applies)(const ParallelOptions&);  // null: always
  void (*set)(ProofLayout&, size_t value);
  size_t (*get)(const ProofLayout&);
};

template <class Enum>
std::vector<std::string> values_of() {
  const auto names = names_of(Enum{});
  return {names.begin(), names.end()};
}

bool has_tensor_ranks(const ParallelOptions& parallel) { return parallel.tp > 1; }
bool has_context_ranks(const ParallelOptions& parallel) { return parallel.cp > 1; }
bool has_expert_ranks(const ParallelOptions& parallel) { return parallel.ep * parallel.etp > 1; }
bool has_stages(const ParallelOptions& parallel) { return parallel.pp > 1; }
bool has_copies(const ParallelOptions& parallel) { return parallel.world() > parallel.pp; }

bool has_even_data_ranks(const ParallelOptions& parallel) { return parallel.world() / (parallel.pp * parallel.cp * parallel.tp) % 2 == 0; }

const std::vector<Choice>& choices() {
  using namespace recipe;
  static const std::vector<Choice> all = {
      {"parallel.tp_chunks",
       {"1", "3"},
       has_tensor_ranks,
       [](ProofLayout& l, size_t v) { l.parallel.tp_chunks = v == 0 ? 1 : 3; },
       [](const ProofLayout& l) { return static_cast<size_t>(l.parallel.tp_chunks > 1); }},
      {"parallel.context", values_of<ContextMethod>(), has_context_ranks,
       [](ProofLayout& l, size_t v) { l.parallel.context.softmax = static_cast<ContextMethod>(v); },
       [](const ProofLayout& l) { return static_cast<size_t>(l.parallel.context.softmax); }},
      {"parallel.linear_context", values_of<LinearContextMethod>(), has_context_ranks,
       [](ProofLayout& l, size_t v) { l.parallel.context.linear = static_cast<LinearContextMethod>(v); },
       [](const ProofLayout& l) { return static_cast<size_t>(l.parallel.context.linear); }},
      {"parallel.context_split", values_of<ContextSplit>(), has_context_ranks,
       [](ProofLayout& l, size_t v) { l.parallel.context.split = static_cast<ContextSplit>(v); },
       [](const ProofLayout& l) { return static_cast<size_t>(l.parallel.context.split); }},
      {"parallel.schedule", values_of<PipelineSchedule>(), has_stages,
       [](ProofLayout& l, size_t v) {
         l.parallel.pipeline.schedule = static_cast<PipelineSchedule>(v);
         l.parallel.pipeline.chunks = l.parallel.pipeline.schedule == PipelineSchedule::kInterleaved ? 2 : 1;
       },
       [](const ProofLayout& l) { return static_cast<size_t>(l.parallel.pipeline.schedule); }},
      {"parallel.zero",
       {"0", "1", "2", "3", "1 in two groups", "3 in two groups"},
       has_copies,
       [](ProofLayout& l, size_t v) {
         const bool groups = v > 3;
         l.parallel.zero = static_cast<int64_t>(v == 4 ? 1 : groups ? 3 : v);
         l.parallel.zero_copies = groups && has_even_data_ranks(l.parallel) ? 2 : 1;
       },
       [](const ProofLayout& l) {
         const auto zero = static_cast<size_t>(l.parallel.zero);
         return l.parallel.zero_copies == 1 ? zero : zero == 1 ? size_t{4} : size_t{5};
       }},
      {"parallel.dispatcher",
       {"all-to-all", "all-gather", "all-to-all padded"},
       has_expert_ranks,
       [](ProofLayout& l, size_t v) {
         l.parallel.experts.dispatcher = v == 1 ? Dispatcher::kAllGather : Dispatcher::kAllToAll;
         l.parallel.experts.padded = v == 2;
       },
       [](const ProofLayout& l) { return l.parallel.experts.padded ? size_t{2} : static_cast<size_t>(l.parallel.experts.dispatcher); }},
      {"parallel.token_groups",
       {"1", "2"},
       has_expert_ranks,
       [](ProofLayout& l, size_t v) { l.parallel.experts.token_groups = static_cast<int64_t>(v) + 1; },
       [](const ProofLayout& l) { return static_cast<size_t>(l.parallel.experts.token_groups > 1); }},
      {"parallel.delay_expert_gradients",
       {"false", "true"},
       has_expert_ranks,
       [](ProofLayout& l, size_t v) { l.parallel.experts.delay_gradients = v == 1; },
       [](const ProofLayout& l) { return static_cast<size_t>(l.parallel.experts.delay_gradients); }},
      {"train.recompute",
       {"none", "selective", "full", "none, kept in a file"},
       nullptr,
       [](ProofLayout& l, size_t v) {
         l.recompute = v == 3 ? Recompute::kNone : static_cast<Recompute>(v);
         l.offload = v == 3;
       },
       [](const ProofLayout& l) { return l.offload ? size_t{3} : static_cast<size_t>(l.recompute); }},
      {"documents",
       {"packed", "whole rows"},
       nullptr,
       [](ProofLayout& l, size_t v) { l.packed = v == 0; },
       [](const ProofLayout& l) { return static_cast<size_t>(!l.packed); }},
  };
  return all;
}

// Two things that a layout has together: choices by number, then axes with more than one rank.
using Pair = std::pair<std::pair<size_t, size_t>, std::pair<size_t, size_t>>;

std::vector<std::pair<size_t, size_t>> features_of(const ProofLayout& layout, const layout::Mesh& mesh) {
  std::vector<std::pair<size_t, size_t>> features;
  for (size_t c = 0; c < choices().size(); ++c) {
    const Choice& choice = choices()[c];
    if (choice.applies == nullptr || choice.applies(layout.parallel)) features.emplace_back(c, choice.get(layout));
  }
  for (size_t a = 0; a < std::size(kAxes); ++a) {
    if (mesh.size(kAxes[a]) > 1) features.emplace_back(choices().size() + a, 0);
  }
  return features;
}

std::vector<Pair> pairs_of(const ProofLayout& layout, const layout::Mesh& mesh) {
  const auto features = features_of(layout, mesh);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < features.size(); ++i) {
    for (size_t j = i + 1; j < features.size(); ++j) pairs.emplace_back(features[i], features[j]);
  }
  return pairs;
}

std::string text_of(const std::pair<size_t, size_t>& feature) {
  const auto& [what, value] = feature;
  if (what >= choices().size()) return std::string(layout::name_of(kAxes[what - choices().size()]));
  return fmt::format("{}={}", choices()[what].key, choices()[what].values[value]);
}

// ---- meshes

std::vector<ParallelOptions> meshes_of(int64_t world, bool experts) {
  std::vector<ParallelOptions> meshes;
  const auto powers = [](int64_t most) {
    std::vector<int64_t> all;
    for (int64_t p = 1; p <= most; p *= 2) all.push_back(p);
    return all;
  };
  for (const int64_t pp : powers(world)) {
    for (const int64_t cp : powers(world / pp)) {
      for (const int64_t tp : powers(world / pp / cp)) {
        for (const int64_t ep : powers(experts ? world / pp : 1)) {
          for (const int64_t etp : powers(experts ? world / pp / ep : 1)) {
            meshes.push_back({.ranks = world, .tp = tp, .pp = pp, .cp = cp, .ep = ep, .etp = etp});
          }
        }
      }
    }
  }
  return meshes;
}

bool possible(const recipe::ModelConfig& model, const ProofLayout& layout) {
  try {
    const parallel::Arrangement arrangement = arrangement_of(layout);
    parallel::require_possible(made_small(model, layout.parallel.world()), arrangement);
    if (layout.parallel.pp > 1) {
      const int64_t own = kProofRows / arrangement.mesh.size(Axis::kDp);
      layout::passes_of(layout::Pipeline(layout.parallel.pp, layout.parallel.pipeline),
                        own / proof_rows_at_once(model, layout.parallel.pp, own));
    }
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage) throw;
    return false;
  }
}

// Calls `with` for every combination of choices that apply to the mesh, beginning with number `first` of the combinations.
void each_combination(const ParallelOptions& mesh, size_t first, const std::function<void(const ProofLayout&)>& with) {
  size_t count = 1;
  for (const Choice& choice : choices()) {
    if (choice.applies == nullptr || choice.applies(mesh)) count *= choice.values.size();
  }
  for (size_t i = 0; i < count; ++i) {
    size_t number = (first + i) % count;
    ProofLayout layout{.parallel = mesh};
    for (const Choice& choice : choices()) {
      if (choice.applies != nullptr && !choice.applies(mesh)) continue;
      choice.set(layout, number % choice.values.size());
      number /= choice.values.size();
    }
    with(layout);
  }
}

// Chooses what has most pairs that nothing before had.
class Covering {
 public:
  explicit Covering(const recipe::ModelConfig& model) : model_(model) {}

  // The best combination on a mesh that has at least `least` new pairs, or nothing.
  std::optional<ProofLayout> best(const ParallelOptions& parallel, size_t first, int64_t least) {
    const layout::Mesh mesh = mesh_of(parallel);
    std::optional<ProofLayout> found;
    int64_t most = least - 1;
    each_combination(parallel, first, [&](const ProofLayout& layout) {
      int64_t fresh = 0;
      for (const Pair& pair : pairs_of(layout, mesh)) fresh += had_.contains(pair) ? 0 : 1;
      if (fresh <= most || !possible(model_, layout)) return;
      most = fresh;
      found = layout;
    });
    if (!found) return found;
    for (const Pair& pair : pairs_of(*found, mesh)) had_.insert(pair);
    return proof_layout(found->parallel, found->packed, found->recompute, found->offload);
  }

 private:
  const recipe::ModelConfig& model_;
  std::set<Pair> had_;
};

}  // namespace

ProofLayout proof_layout(ParallelOptions parallel, bool packed, recipe::Recompute recompute, bool offload) {
  ProofLayout layout{.parallel = std::move(parallel), .packed = packed, .recompute = recompute, .offload = offload};
  const ParallelOptions& of = layout.parallel;
  const auto add = [&](const std::string& part) { layout.name += (layout.name.empty() ? "" : "-") + part; };
  const int64_t workers = std::max<int64_t>(1, of.workers), replicas = std::max<int64_t>(1, of.world() / (workers * of.pp * of.cp * of.tp));
  if (workers > 1) add(fmt::format("workers{}", workers));
  if (replicas > 1) add(fmt::format("dp{}", replicas));
  if (of.tp > 1) add(fmt::format("tp{}", of.tp));
  if (of.tp > 1 && of.tp_chunks > 1) add(fmt::format("parts{}", of.tp_chunks));
  if (of.pp > 1) {
    add(fmt::format("pp{}-{}", of.pp, names_of(of.pipeline.schedule)[static_cast<size_t>(of.pipeline.schedule)]));
    if (!of.pipeline.stage_layers.empty()) add("uneven");
  }
  if (of.cp > 1) {
    const recipe::ContextOptions usual;
    add(fmt::format("cp{}", of.cp));
    if (of.context.softmax != usual.softmax) add(std::string(names_of(of.context.softmax)[static_cast<size_t>(of.context.softmax)]));
    if (of.context.linear != usual.linear) {
      add(fmt::format("linear-{}", names_of(of.context.linear)[static_cast<size_t>(of.context.linear)]));
    }
    if (of.context.split != usual.split) add(std::string(names_of(of.context.split)[static_cast<size_t>(of.context.split)]));
  }
  if (of.ep > 1) add(fmt::format("ep{}", of.ep));
  if (of.etp > 1) add(fmt::format("etp{}", of.etp));
  if (of.zero > 0) add(fmt::format("zero{}", of.zero));
  if (of.zero_copies > 1) add(fmt::format("copies{}", of.zero_copies));
  if (of.ep * of.etp > 1) {
    if (of.experts.dispatcher == recipe::Dispatcher::kAllGather) add("all-gather");
    if (of.experts.padded) add("padded");
    if (of.experts.token_groups > 1) add(fmt::format("groups{}", of.experts.token_groups));
    if (of.experts.delay_gradients) add("delayed");
  }
  if (layout.name.empty()) add("one");
  if (recompute != recipe::Recompute::kNone) add(fmt::format("{}-again", names_of(recompute)[static_cast<size_t>(recompute)]));
  if (offload) add("in-file");
  if (!packed) add("rows");
  return layout;
}

parallel::Arrangement arrangement_of(const ProofLayout& layout) {
  const int64_t workers = std::max<int64_t>(1, layout.parallel.workers);
  parallel::Arrangement arrangement = parallel::arrangement_of(layout.parallel, layout.parallel.world() / workers);
  arrangement.workers = workers;
  arrangement.elastic = layout.elastic;
  return arrangement;
}

std::vector<ProofLayout> proof_layouts(const ParallelOptions& own) {
  using enum recipe::ContextMethod;
  using enum recipe::ContextSplit;
  using enum recipe::PipelineSchedule;
  using recipe::LinearContextMethod;
  constexpr auto kAllScan = LinearContextMethod::kAllScan;
  std::vector<ProofLayout> layouts;
  for (const ParallelOptions& each :
       std::vector<ParallelOptions>{{.ranks = 2},
                                    {.tp = 2},
                                    {.tp = 2, .tp_chunks = 3},
                                    {.cp = 2, .context = {.split = kContiguous}},
                                    {.cp = 2},
                                    {.cp = 2, .context = {.softmax = kUlysses, .linear = kAllScan}},
                                    {.cp = 4, .context = {kRing, LinearContextMethod::kRing, kContiguous}},
                                    {.cp = 4, .context = {kRing, LinearContextMethod::kRing, kZigzag}},
                                    {.cp = 4, .context = {.softmax = kTwoLevel, .linear = kAllScan, .split = kContiguous}},
                                    {.pp = 2},
                                    {.pp = 2, .pipeline = {.schedule = kGpipe}},
                                    {.pp = 2, .pipeline = {.schedule = kInterleaved, .chunks = 2}},
                                    {.pp = 2, .pipeline = {.schedule = kZbH1}},
                                    {.pp = 2, .pipeline = {.schedule = kZbV}},
                                    {.pp = 2, .pipeline = {.schedule = kDualPipe}},
                                    {.ep = 2},
                                    {.etp = 2},
                                    {.ep = 2, .experts = {.dispatcher = recipe::Dispatcher::kAllGather}},
                                    {.ep = 2, .etp = 2, .experts = {.token_groups = 2, .delay_gradients = true}},
                                    {.ranks = 4, .tp = 2}}) {
    layouts.push_back(proof_layout(each));
  }
  for (const int64_t zero : {1, 2, 3}) {
    for (const ParallelOptions& each : std::vector<ParallelOptions>{{.ranks = 2, .zero = zero},
                                                                    {.ranks = 4, .zero = zero},
                                                                    {.ranks = 4, .zero = zero, .zero_copies = 2},
                                                                    {.cp = 2, .zero = zero},
                                                                    {.ranks = 4, .tp = 2, .zero = zero},
                                                                    {.ranks = 4, .ep = 2, .zero = zero},
                                                                    {.ranks = 4, .pp = 2, .zero = zero, .pipeline = {.schedule = kZbH1}}}) {
      layouts.push_back(proof_layout(each));
    }
  }
  for (const ParallelOptions& each : std::vector<ParallelOptions>{{.workers = 2, .tp = 2},
                                                                  {.ranks = 4, .workers = 2, .zero = 3},
                                                                  {.workers = 2, .pp = 2, .zero = 1},
                                                                  {.ranks = 4, .cp = 2, .zero = 3, .zero_copies = 2},
                                                                  {.ranks = 8, .ep = 2, .zero = 2, .zero_copies = 2}}) {
    layouts.push_back(proof_layout(each));
  }
  using enum recipe::Recompute;
  layouts.push_back(proof_layout({.tp = 2}, true, kFull));
  layouts.push_back(proof_layout({.cp = 2}, false, kSelective));
  layouts.push_back(proof_layout({.pp = 2, .pipeline = {.schedule = kZbH1}}, true, kFull));
  layouts.push_back(proof_layout({.ranks = 2, .zero = 3}, true, kFull));
  layouts.push_back(proof_layout({.ranks = 4, .tp = 2, .zero = 3}, true, kNone, true));
  layouts.push_back(proof_layout({.pp = 2, .pipeline = {.schedule = kZbH1}}, true, kFull, true));
  for (const ParallelOptions& each : std::vector<ParallelOptions>{{.ranks = 2}, {.ranks = 4, .zero = 3}}) {
    layouts.push_back(proof_layout(each));
    layouts.back().name += "-elastic";
    layouts.back().elastic = true;
  }
  const ProofLayout named = proof_layout(own);
  if (own.world() > 1 && std::ranges::find(layouts, named.name, &ProofLayout::name) == layouts.end()) layouts.push_back(named);
  return layouts;
}

std::vector<ProofLayout> process_layouts(const recipe::ModelConfig& model, int64_t ranks) {
  using enum recipe::PipelineSchedule;
  constexpr auto kRing = recipe::ContextMethod::kRing;
  std::vector<ProofLayout> layouts;
  for (const ParallelOptions& each : std::vector<ParallelOptions>{{.ranks = 2, .zero = 2},
                                                                  {.tp = 2},
                                                                  {.cp = 2, .context = {kRing, recipe::LinearContextMethod::kRing}},
                                                                  {.pp = 2, .pipeline = {.schedule = kZbH1}},
                                                                  {.ep = 2},
                                                                  {.ranks = 4, .tp = 2, .zero = 3}}) {
    if (each.world() > ranks || (each.ep > 1 && model.experts == 0)) continue;
    layouts.push_back(proof_layout(each));
    layouts.back().name += "-processes";
    layouts.back().processes = true;
  }
  return layouts;
}

std::vector<ProofLayout> all_layouts(const recipe::ModelConfig& model, int64_t ranks) {
  Covering covering(model);
  std::vector<ParallelOptions> meshes;
  for (int64_t world = 1; world <= ranks; world *= 2) {
    for (const ParallelOptions& mesh : meshes_of(world, model.experts > 0)) meshes.push_back(mesh);
  }
  std::vector<ProofLayout> layouts;
  for (size_t m = 0; m < meshes.size(); ++m) {
    const auto chosen = covering.best(meshes[m], m, 0);
    layouts.push_back(chosen ? *chosen : proof_layout(meshes[m]));  // it will be refused, and say why
  }
  for (const ParallelOptions& mesh : meshes) {  // what is left, on the smallest that can
    while (const auto more = covering.best(mesh, 0, 1)) layouts.push_back(*more);
  }
  for (ProofLayout& each : process_layouts(model, ranks)) layouts.push_back(std::move(each));
  return layouts;
}

std::vector<std::string> pairs_left_out(const std::vector<ProofLayout>& layouts) {
  std::set<Pair> had;
  std::set<std::pair<size_t, size_t>> features;
  for (const ProofLayout& layout : layouts) {
    const layout::Mesh mesh = mesh_of(layout.parallel);
    for (const Pair& pair : pairs_of(layout, mesh)) had.insert(pair);
    for (const auto& feature : features_of(layout, mesh)) features.insert(feature);
  }
  std::vector<std::string> left_out;
  for (auto a = features.begin(); a != features.end(); ++a) {
    for (auto b = std::next(a); b != features.end(); ++b) {
      if (a->first != b->first && !had.contains({*a, *b})) left_out.push_back(fmt::format("{} with {}", text_of(*a), text_of(*b)));
    }
  }
  return left_out;
}

}  // namespace longhaul::train
