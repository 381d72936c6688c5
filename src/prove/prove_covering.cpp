#include "prove/prove_covering.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/error.h"
#include "layout/schedule/schedule.h"
#include "parallel/pipeline/arrangement.h"
#include "prove/prove_task.h"

namespace longhaul::prove {
namespace {

using layout::Axis;
using recipe::ParallelOptions;

constexpr Axis kAxes[] = {Axis::kDp, Axis::kTp, Axis::kPp, Axis::kCp, Axis::kEp, Axis::kEtp};

// Whatever the model is: copies of its key heads are no choice.
layout::Mesh mesh_of(const ParallelOptions& parallel) {
  return arrangement_of({}, ProofLayout{.parallel = parallel}).mesh;
}

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

bool has_even_data_ranks(const ParallelOptions& parallel) {
  return parallel.world() / (parallel.pp * parallel.cp * parallel.tp) % 2 == 0;
}

// Those that say nothing of ranks come last.
constexpr size_t kBesideRanks = 2;
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
       {"all-to-all", "all-gather", "flex", "all-to-all padded"},
       has_expert_ranks,
       [](ProofLayout& l, size_t v) {
         l.parallel.experts.dispatcher = v == 3 ? Dispatcher::kAllToAll : static_cast<Dispatcher>(v);
         l.parallel.experts.padded = v == 3;
       },
       [](const ProofLayout& l) {
         return l.parallel.experts.padded ? size_t{3} : static_cast<size_t>(l.parallel.experts.dispatcher);
       }},
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
       {"none", "selective", "tokens", "full", "none, kept in a file", "tokens, kept on the host",
        "full, of one layer in each stage", "selective, of one layer in each stage"},
       nullptr,
       [](ProofLayout& l, size_t v) {
         constexpr Recompute kMore[] = {Recompute::kNone, Recompute::kTokens, Recompute::kFull,
                                        Recompute::kSelective};
         l.recompute = v >= 4 ? kMore[v - 4] : static_cast<Recompute>(v);
         l.recompute_layers = v >= 6 ? 1 : 0;
         l.offload = v == 4   ? recipe::Offload::kFile
                     : v == 5 ? recipe::Offload::kHost
                              : recipe::Offload::kNone;
       },
       [](const ProofLayout& l) {
         if (l.recompute_layers > 0) return l.recompute == Recompute::kFull ? size_t{6} : size_t{7};
         return l.offload == recipe::Offload::kFile   ? size_t{4}
                : l.offload == recipe::Offload::kHost ? size_t{5}
                                                      : static_cast<size_t>(l.recompute);
       }},
      {"documents",
       {"packed", "whole rows"},
       nullptr,
       [](ProofLayout& l, size_t v) { l.packed = v == 0; },
       [](const ProofLayout& l) { return static_cast<size_t>(!l.packed); }},
  };
  return all;
}

// ---- what a layout has, and pairs of that

// Values of choices and axes of more than one rank, each a bit.
using Features = uint64_t;
constexpr size_t kMostFeatures = 64;

Features bit(size_t feature) { return Features{1} << feature; }

size_t first_feature_of(size_t choice) {
  size_t first = 0;
  for (size_t c = 0; c < choice; ++c) first += choices()[c].values.size();
  LONGHAUL_ASSERT(first + std::size(kAxes) <= kMostFeatures, "{} values of choices", first);
  return first;
}

bool applies(const Choice& choice, const ParallelOptions& parallel) {
  return choice.applies == nullptr || choice.applies(parallel);
}

Features axes_of(const ParallelOptions& parallel) {
  const layout::Mesh mesh = mesh_of(parallel);
  Features axes = 0;
  for (size_t a = 0; a < std::size(kAxes); ++a) {
    if (mesh.size(kAxes[a]) > 1) axes |= bit(first_feature_of(choices().size()) + a);
  }
  return axes;
}

Features features_of(const ProofLayout& layout) {
  Features features = axes_of(layout.parallel);
  for (size_t c = 0; c < choices().size(); ++c) {
    if (applies(choices()[c], layout.parallel))
      features |= bit(first_feature_of(c) + choices()[c].get(layout));
  }
  return features;
}

// Of which choice a feature is a value; beyond the last: an axis.
size_t choice_of(size_t feature) {
  size_t choice = 0;
  while (choice < choices().size() && feature >= first_feature_of(choice + 1)) ++choice;
  return choice;
}

std::string text_of(size_t feature) {
  const size_t choice = choice_of(feature), value = feature - first_feature_of(choice);
  if (choice >= choices().size()) return std::string(layout::name_of(kAxes[value]));
  return fmt::format("{}={}", choices()[choice].key, choices()[choice].values[value]);
}

// Calls with(feature) for each.
void each_of(Features features, const auto& with) {
  for (; features != 0; features &= features - 1) with(static_cast<size_t>(std::countr_zero(features)));
}

class Pairs {
 public:
  void add(Features together) {
    each_of(together, [&](size_t feature) { with_[feature] |= together; });
  }
  bool has(size_t a, size_t b) const { return (with_[a] & bit(b)) != 0; }
  int64_t not_yet(Features together) const {
    int64_t twice = 0;
    each_of(together,
            [&](size_t feature) { twice += std::popcount(together & ~with_[feature] & ~bit(feature)); });
    return twice / 2;
  }

 private:
  std::array<Features, kMostFeatures> with_{};
};

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
    require_dealt_out(model, layout);
    if (layout.parallel.pp > 1) {
      const int64_t replicas = mesh_of(layout.parallel).size(Axis::kDp),
                    own = proof_rows(replicas) / replicas;
      layout::passes_of(layout::Pipeline(layout.parallel.pp, layout.parallel.pipeline),
                        own / proof_rows_at_once(model, layout.parallel.pp, own));
    }
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage) throw;
    return false;
  }
}

// The combinations of choices that apply to a mesh, by number.
class Combinations {
 public:
  explicit Combinations(const ParallelOptions& mesh) : mesh_(mesh), axes_(axes_of(mesh)) {
    for (size_t c = 0; c < choices().size(); ++c) {
      const Choice& choice = choices()[c];
      if (!applies(choice, mesh)) continue;
      std::vector<Features> features;
      for (size_t value = 0; value < choice.values.size(); ++value) {
        ProofLayout layout{.parallel = mesh};
        choice.set(layout, value);
        features.push_back(bit(first_feature_of(c) + choice.get(layout)));
      }
      count_ *= features.size();
      if (c < choices().size() - kBesideRanks) of_ranks_ = count_;
      choices_.push_back(&choice);
      features_.push_back(std::move(features));
    }
  }
  size_t count() const { return count_; }
  // How the ranks of a combination are arranged, a number below the second.
  size_t arrangement(size_t number) const { return number % of_ranks_; }
  size_t arrangements() const { return of_ranks_; }
  Features features(size_t number) const {
    Features all = axes_;
    for (const std::vector<Features>& values : features_) {
      all |= values[number % values.size()];
      number /= values.size();
    }
    return all;
  }
  ProofLayout layout(size_t number) const {
    ProofLayout layout{.parallel = mesh_};
    for (const Choice* const choice : choices_) {
      choice->set(layout, number % choice->values.size());
      number /= choice->values.size();
    }
    return layout;
  }

 private:
  ParallelOptions mesh_;
  Features axes_;
  size_t count_ = 1, of_ranks_ = 1;
  std::vector<const Choice*> choices_;
  std::vector<std::vector<Features>> features_;  // by choice and value
};

// Chooses what has most pairs that nothing before had.
class Covering {
 public:
  explicit Covering(const recipe::ModelConfig& model) : model_(model) {}

  // The best combination on a mesh that has at least `least` new pairs, or nothing; of equals the first from
  // number `first` on.
  std::optional<ProofLayout> best(const ParallelOptions& mesh, size_t first, int64_t least) {
    const Combinations combinations(mesh);
    std::optional<ProofLayout> found;
    int64_t most = least - 1;
    std::vector<bool> impossible(combinations.arrangements());
    for (size_t i = 0; i < combinations.count(); ++i) {
      const size_t number = (first + i) % combinations.count();
      const int64_t fresh = had_.not_yet(combinations.features(number));
      if (fresh <= most || impossible[combinations.arrangement(number)]) continue;
      ProofLayout layout = combinations.layout(number);
      if (!possible(model_, layout)) {
        impossible[combinations.arrangement(number)] = true;
        continue;
      }
      most = fresh;
      found = std::move(layout);
    }
    if (!found) return found;
    had_.add(features_of(*found));
    return proof_layout(found->parallel, found->packed, found->recompute, found->offload,
                        found->recompute_layers);
  }

 private:
  const recipe::ModelConfig& model_;
  Pairs had_;
};

}  // namespace

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
  for (ProofLayout& each : elastic_layouts(ranks)) layouts.push_back(std::move(each));
  for (ProofLayout& each : process_layouts(model, ranks)) layouts.push_back(std::move(each));
  return layouts;
}

std::vector<std::string> pairs_left_out(const std::vector<ProofLayout>& layouts) {
  Pairs had;
  Features features = 0;
  for (const ProofLayout& layout : layouts) {
    had.add(features_of(layout));
    features |= features_of(layout);
  }
  std::vector<std::string> left_out;
  each_of(features, [&](size_t a) {
    each_of(features, [&](size_t b) {
      if (a < b && choice_of(a) != choice_of(b) && !had.has(a, b))
        left_out.push_back(fmt::format("{} with {}", text_of(a), text_of(b)));
    });
  });
  return left_out;
}

}  // namespace longhaul::prove
