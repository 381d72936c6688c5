#include "prove/prove_layouts.h"

#include <fmt/format.h>

#include <algorithm>

#include "layout/methods/methods.h"
#include "parallel/pipeline/arrangement.h"

namespace longhaul::prove {

using recipe::ParallelOptions;

ProofLayout proof_layout(ParallelOptions parallel, bool packed, recipe::Recompute recompute,
                         recipe::Offload offload, int64_t recompute_layers) {
  ProofLayout layout{.parallel = std::move(parallel),
                     .packed = packed,
                     .recompute = recompute,
                     .recompute_layers = recompute_layers,
                     .offload = offload};
  const ParallelOptions& of = layout.parallel;
  const auto add = [&](const std::string& part) { layout.name += (layout.name.empty() ? "" : "-") + part; };
  const int64_t workers = std::max<int64_t>(1, of.workers),
                replicas = std::max<int64_t>(1, of.world() / (workers * of.pp * of.cp * of.tp));
  if (workers > 1) add(fmt::format("workers{}", workers));
  if (replicas > 1) add(fmt::format("dp{}", replicas));
  if (of.tp > 1) add(fmt::format("tp{}", of.tp));
  if (of.tp > 1 && of.tp_chunks > 1) add(fmt::format("parts{}", of.tp_chunks));
  if (of.pp > 1) {
    add(fmt::format("pp{}-{}", of.pp,
                    names_of(of.pipeline.schedule)[static_cast<size_t>(of.pipeline.schedule)]));
    if (of.pipeline.schedule == recipe::PipelineSchedule::kInterleaved && of.pipeline.chunks != 2)
      add(fmt::format("chunks{}", of.pipeline.chunks));
    if (!of.pipeline.stage_layers.empty()) add("uneven");
    if (!of.pairs_in_turns) add("pairs-apart");
  }
  if (of.cp > 1) {
    const recipe::ContextOptions usual;
    add(fmt::format("cp{}", of.cp));
    if (of.context.softmax != usual.softmax)
      add(std::string(names_of(of.context.softmax)[static_cast<size_t>(of.context.softmax)]));
    if (of.context.linear != usual.linear) {
      add(fmt::format("linear-{}", names_of(of.context.linear)[static_cast<size_t>(of.context.linear)]));
    }
    if (of.context.split != usual.split)
      add(std::string(names_of(of.context.split)[static_cast<size_t>(of.context.split)]));
  }
  if (of.ep > 1) add(fmt::format("ep{}", of.ep));
  if (of.etp > 1) add(fmt::format("etp{}", of.etp));
  if (of.zero > 0) add(fmt::format("zero{}", of.zero));
  if (of.zero_copies > 1) add(fmt::format("copies{}", of.zero_copies));
  if (of.ep * of.etp > 1) {
    if (of.experts.dispatcher != recipe::Dispatcher::kAllToAll)
      add(std::string(names_of(of.experts.dispatcher)[static_cast<size_t>(of.experts.dispatcher)]));
    if (of.experts.padded) add("padded");
    if (of.experts.token_groups > 1) add(fmt::format("groups{}", of.experts.token_groups));
    if (of.experts.delay_gradients) add("delayed");
  }
  if (layout.name.empty()) add("one");
  if (recompute != recipe::Recompute::kNone)
    add(fmt::format("{}-again", names_of(recompute)[static_cast<size_t>(recompute)]));
  if (recompute_layers > 0) add(fmt::format("of{}", recompute_layers));
  if (offload == recipe::Offload::kFile) add("in-file");
  if (offload == recipe::Offload::kHost) add("on-host");
  if (!packed) add("rows");
  return layout;
}

parallel::Arrangement arrangement_of(const recipe::ModelConfig& model, const ProofLayout& layout) {
  const int64_t workers = std::max<int64_t>(1, layout.parallel.workers);
  parallel::Arrangement arrangement =
      parallel::arrangement_of(model, layout.parallel, layout.parallel.world() / workers);
  arrangement.workers = workers;
  arrangement.elastic = layout.elastic;
  return arrangement;
}

std::vector<ProofLayout> proof_layouts(const ProofLayout& own) {
  using recipe::PipelineSchedule::kZbH1, recipe::PipelineSchedule::kDualPipe;
  std::vector<ProofLayout> layouts;
  for (const layout::ParallelMethod* method : layout::parallel_methods()) {
    for (const ParallelOptions& each : method->proved()) layouts.push_back(proof_layout(each));
  }
  for (const ParallelOptions& each :  // several methods together
       std::vector<ParallelOptions>{{.ranks = 4, .cp = 2, .zero = 3, .zero_copies = 2},
                                    {.ranks = 8, .ep = 2, .zero = 2, .zero_copies = 2}}) {
    layouts.push_back(proof_layout(each));
  }
  using enum recipe::Recompute;
  using recipe::Offload::kFile, recipe::Offload::kHost;
  layouts.push_back(proof_layout({.tp = 2}, true, kFull));
  layouts.push_back(proof_layout({.cp = 2}, false, kSelective));
  layouts.push_back(proof_layout({.cp = 2}, true, kTokens));
  layouts.push_back(proof_layout({.tp = 2, .pp = 2, .pipeline = {.schedule = kZbH1}}, true, kTokens, kHost));
  layouts.push_back(proof_layout({.ranks = 2, .zero = 3}, true, kTokens, kHost));
  layouts.push_back(proof_layout({.pp = 2, .pipeline = {.schedule = kZbH1}}, true, kFull));
  layouts.push_back(proof_layout({.tp = 2,
                                  .pp = 2,
                                  .ep = 2,
                                  .pipeline = {.schedule = kDualPipe},
                                  .experts = {.dispatcher = recipe::Dispatcher::kFlex}},
                                 true, kFull));
  layouts.push_back(proof_layout({.ranks = 2, .zero = 3}, true, kFull));
  layouts.push_back(proof_layout({.ranks = 4, .tp = 2, .zero = 3}, true, kNone, kFile));
  layouts.push_back(proof_layout({.pp = 2, .pipeline = {.schedule = kZbH1}}, true, kFull, kFile));
  layouts.push_back(proof_layout({.ranks = 2, .tp = 2}, true, kFull, recipe::Offload::kNone, 1));
  for (ProofLayout& each : elastic_layouts(4)) layouts.push_back(std::move(each));
  for (ProofLayout& each : weighted_layouts()) layouts.push_back(std::move(each));
  for (ProofLayout& each : embedded_layouts()) layouts.push_back(std::move(each));
  for (const ParallelOptions& each : std::vector<ParallelOptions>{{.tp = 4}, {.tp = 4, .zero = 3}})
    layouts.push_back(proof_layout(each));
  if (own.parallel.world() > 1 && std::ranges::find(layouts, own.name, &ProofLayout::name) == layouts.end())
    layouts.push_back(own);
  return layouts;
}

namespace {

ProofLayout made_elastic(ProofLayout layout) {
  layout.name += "-elastic";
  layout.elastic = true;
  return layout;
}

}  // namespace

ProofLayout own_layout(const recipe::Recipe& recipe) {
  ParallelOptions own = recipe.parallel;
  if (own.world() >= 2 * own.needed())
    own.workers = parallel::workers_of(recipe.optim.outer, own, own.world());
  const ProofLayout layout =
      proof_layout(own, true, recipe.train.recompute, recipe.train.offload, recipe.train.recompute_layers);
  return recipe.train.elastic ? made_elastic(layout) : layout;
}

std::vector<ProofLayout> weighted_layouts() {
  std::vector<ProofLayout> layouts;
  for (const ParallelOptions& each : std::vector<ParallelOptions>{
           {.tp = 2, .cp = 2},
           {.ranks = 4, .pp = 2, .zero = 1, .pipeline = {.schedule = recipe::PipelineSchedule::kZbH1}}}) {
    layouts.push_back(proof_layout(each));
    layouts.back().weighted = true;
    layouts.back().name += "-weighted";
  }
  return layouts;
}

std::vector<ProofLayout> embedded_layouts() {
  std::vector<ProofLayout> layouts = {
      proof_layout({.tp = 2, .cp = 2}),
      proof_layout({.ranks = 4, .tp = 2, .zero = 3}, true, recipe::Recompute::kFull)};
  for (ProofLayout& each : layouts) {
    each.embedded = true;
    each.name += "-embedded";
  }
  return layouts;
}

std::vector<ProofLayout> elastic_layouts(int64_t ranks) {
  std::vector<ProofLayout> layouts;
  for (const ParallelOptions& each :
       std::vector<ParallelOptions>{{.ranks = 2}, {.ranks = 4, .zero = 3}, {.ranks = 8, .zero = 1}}) {
    if (each.world() <= ranks) layouts.push_back(made_elastic(proof_layout(each)));
  }
  return layouts;
}

std::vector<ProofLayout> process_layouts(const recipe::ModelConfig& model, int64_t ranks) {
  using enum recipe::PipelineSchedule;
  constexpr auto kRing = recipe::ContextMethod::kRing;
  std::vector<ProofLayout> layouts;
  for (const ParallelOptions& each :
       std::vector<ParallelOptions>{{.ranks = 2, .zero = 2},
                                    {.tp = 2},
                                    {.cp = 2, .context = {kRing, recipe::LinearContextMethod::kRing}},
                                    {.pp = 2, .pipeline = {.schedule = kZbH1}},
                                    {.ep = 2},
                                    {.pp = 2, .cp = 2, .ep = 2, .pipeline = {.schedule = kDualPipe}},
                                    {.ranks = 4, .tp = 2, .zero = 3}}) {
    if (each.world() > ranks || (each.ep > 1 && model.experts == 0)) continue;
    layouts.push_back(proof_layout(each));
    layouts.back().name += "-processes";
    layouts.back().processes = true;
  }
  return layouts;
}

}  // namespace longhaul::prove
