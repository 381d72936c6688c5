#include "control/widths.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "layout/mesh.h"
#include "layout/methods/methods.h"
#include "layout/schedule/schedule.h"

namespace longhaul::control {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The largest micro-batch, up to the recipe's, that divides every batch evenly for all replicas; 0: there is
// none.
int64_t micro_batch_for(const recipe::Recipe& recipe, int64_t replicas) {
  int64_t micro_batch = recipe.train.micro_batch;
  for (const BatchSize& batch : batches_of(recipe)) {
    if (batch.samples % replicas != 0) return 0;
    micro_batch = std::gcd(micro_batch, batch.samples / replicas);
  }
  // Sums or schedules depend on the number of micro-batches.
  const bool fixed = recipe.train.elastic || recipe.parallel.pp > 1;
  return fixed && micro_batch != recipe.train.micro_batch ? 0 : micro_batch;
}

bool has_outer_loop(const recipe::Recipe& recipe) {
  return recipe.optim.outer.method != recipe::Outer::kNone;
}

// The number of islands among `ranks` of `all` ranks: fewer islands of the same size, at least two; else the
// same number of smaller ones; 0: neither is possible. Where parallel.workers does not say how many, every
// island is as small as it can be.
int64_t workers_of(const recipe::Recipe& recipe, int64_t ranks, int64_t all) {
  if (has_outer_loop(recipe) && recipe.parallel.workers == 0) {
    const int64_t islands = layout::smallest_islands(recipe.parallel, ranks);
    return islands * recipe.parallel.needed() == ranks ? islands : 0;
  }
  const int64_t workers = std::max<int64_t>(1, recipe.parallel.workers);
  const int64_t island = std::max<int64_t>(1, all / workers);
  if (workers > 1 && all % workers == 0 && ranks % island == 0 && ranks / island > 1) return ranks / island;
  return ranks % workers == 0 ? workers : 0;
}

std::optional<Width> width_of(const recipe::Recipe& recipe, int64_t ranks, int64_t all) {
  using layout::Axis;
  const int64_t workers = workers_of(recipe, ranks, all);
  const recipe::ParallelOptions& parallel = recipe.parallel;
  if (workers == 0) return std::nullopt;
  try {
    const layout::Mesh mesh(ranks / workers, {.pp = parallel.pp,
                                              .cp = parallel.cp,
                                              .tp = parallel.tp,
                                              .ep = parallel.ep,
                                              .etp = parallel.etp,
                                              .copies = parallel.zero_copies});
    const int64_t replicas = workers * mesh.size(Axis::kDp), micro_batch = micro_batch_for(recipe, replicas);
    if (micro_batch == 0) return std::nullopt;
    Width width{.ranks = ranks, .overrides = {}, .mesh = {}};
    for (const BatchSize& batch : batches_of(recipe)) {
      layout::passes_of(layout::Pipeline(parallel.pp, parallel.pipeline),
                        batch.samples / replicas / micro_batch);
    }
    if (micro_batch != recipe.train.micro_batch)
      width.overrides.push_back(fmt::format("train.micro_batch={}", micro_batch));
    if (parallel.ranks > 0 && parallel.ranks != ranks)
      width.overrides.push_back(fmt::format("parallel.ranks={}", ranks));
    if (parallel.workers > 0 && parallel.workers != workers)
      width.overrides.push_back(fmt::format("parallel.workers={}", workers));
    if (workers > 1) width.mesh.push_back({"workers", workers});
    for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp})
      width.mesh.push_back({std::string(name_of(axis)), mesh.size(axis)});
    if (mesh.size(Axis::kEp) > 1 || mesh.size(Axis::kEtp) > 1) {
      for (const Axis axis : {Axis::kEdp, Axis::kEp, Axis::kEtp})
        width.mesh.push_back({std::string(name_of(axis)), mesh.size(axis)});
    }
    return width;
  } catch (const Error&) {  // the mesh or the schedule does not allow it
    return std::nullopt;
  }
}

}  // namespace

// As in optim/schedule.cpp, which this folder cannot include; there steps count from 1.
std::vector<BatchSize> batches_of(const recipe::Recipe& recipe) {
  std::vector<BatchSize> batches = {{.from_step = 0, .samples = recipe.train.batch}};
  int64_t before = 0;  // tokens before the last of `batches`
  int64_t sequence = recipe.train.sequence;
  for (const recipe::OptimStage& stage : recipe.optim.stages) {
    const BatchSize last = batches.back();
    int64_t from = stage.from_step - 1;
    if (stage.from_tokens > 0) {
      const int64_t left = std::max<int64_t>(0, stage.from_tokens - before);
      from = last.from_step + divide_up(left, last.samples * sequence);
    }
    from = std::max(from, last.from_step);
    before += (from - last.from_step) * last.samples * sequence;
    if (stage.sequence > 0) sequence = stage.sequence;
    if (from == last.from_step) batches.pop_back();
    batches.push_back({.from_step = from, .samples = stage.batch > 0 ? stage.batch : last.samples});
  }
  return batches;
}

double longest_growth(const recipe::Recipe& recipe) {
  double tokens = static_cast<double>(recipe.train.tokens_per_step()), most = 1;
  double sequence = static_cast<double>(recipe.train.sequence), batch = tokens / sequence;
  for (const recipe::OptimStage& stage : recipe.optim.stages) {
    const double longer = stage.sequence > 0 ? static_cast<double>(stage.sequence) / sequence : 1;
    if (stage.sequence > 0) sequence = static_cast<double>(stage.sequence);
    if (stage.batch > 0) batch = static_cast<double>(stage.batch);
    const double before = std::exchange(tokens, batch * sequence);
    most = std::max(most, tokens / before * std::max(1.0, longer));
  }
  return most;
}

std::vector<Width> widths_of(const recipe::Recipe& recipe, int64_t ranks) {
  std::vector<Width> widths;
  // A single island has no partner.
  const int64_t least = std::max<int64_t>(1, recipe.parallel.needed()) * (has_outer_loop(recipe) ? 2 : 1);
  for (int64_t fewer = ranks; fewer >= least && fewer > 0; --fewer) {
    std::optional<Width> width = width_of(recipe, fewer, ranks);
    if (!width) {
      if (fewer != ranks) continue;
      // The ranks themselves report what is wrong with it.
      width = Width{.ranks = ranks, .overrides = {}, .mesh = {{"ranks", ranks}}};
    }
    widths.push_back(std::move(*width));
  }
  if (widths.empty()) widths.push_back({.ranks = ranks, .overrides = {}, .mesh = {{"ranks", ranks}}});
  return widths;
}

}  // namespace longhaul::control
