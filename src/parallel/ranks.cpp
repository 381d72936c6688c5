#include "parallel/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "parallel/checked_sums.h"
#include "parallel/priorities.h"

namespace longhaul::parallel {

using comm::Reduction;
using layout::Axis;
using layout::AxisSet;

Ranks::Ranks(bool elastic) : ops_(std::make_unique<model::LocalOps>()) {
  place_.elastic = elastic;
  if (elastic) tree_ = std::make_unique<GradientTree>(place_, nullptr);
}

namespace {

// Islands are runs of consecutive ranks; whoever stands at the same place of each makes a group too.
std::vector<std::unique_ptr<comm::Communicator>> split_into_islands(comm::Communicator& world,
                                                                    const Arrangement& arrangement) {
  const int64_t workers = arrangement.workers, island = arrangement.mesh.world();
  LONGHAUL_ASSERT(world.size() == arrangement.world(), "{} ranks, {} workers of {}", world.size(), workers,
                  island);
  std::vector<std::unique_ptr<comm::Communicator>> groups(2);
  if (workers == 1) return groups;
  layout::GroupKind islands{.name = "worker", .groups = {}}, counterparts{.name = "workers", .groups = {}};
  islands.groups.resize(static_cast<size_t>(workers));
  counterparts.groups.resize(static_cast<size_t>(island));
  for (int64_t rank = 0; rank < world.size(); ++rank) {
    islands.groups[static_cast<size_t>(rank / island)].push_back(rank);
    counterparts.groups[static_cast<size_t>(rank % island)].push_back(rank);
  }
  return world.split({islands, counterparts}, {.name = "workers"});
}

}  // namespace

Ranks::Ranks(comm::Communicator& world, const Arrangement& arrangement)
    : context_(arrangement.context), world_(&world) {
  auto groups = split_into_islands(world, arrangement);
  island_ = std::move(groups[0]);
  workers_ = std::move(groups[1]);
  comm::Communicator& own = island_ ? *island_ : world;
  place_ = {arrangement.mesh, own.rank(), arrangement.pipeline, arrangement.zero, arrangement.elastic};
  groups_ = std::make_unique<MeshGroups>(own, arrangement.mesh);
  if (arrangement.pipeline.pairs_in_turns) turns_ = std::make_unique<Turns>();
  ops_ = std::make_unique<MeshOps>(*groups_, arrangement.context, arrangement.experts,
                                   arrangement.tensor_chunks, turns_.get());
  if (arrangement.elastic) tree_ = std::make_unique<GradientTree>(place_, groups_.get());
  if (arrangement.zero > 0) values_ = std::make_unique<MeshGroups>(own, arrangement.mesh);
  if (const int64_t stages = arrangement.mesh.size(Axis::kPp); stages > 1) {
    layout::GroupKind same{.name = "pp gradients",
                           .groups = {std::vector<int64_t>(static_cast<size_t>(stages))}};
    std::iota(same.groups[0].begin(), same.groups[0].end(), int64_t{0});
    comm::Communicator& pipeline = groups_->over({Axis::kPp});
    stage_gradients_ = std::move(pipeline.split({same})[0]);
    if (arrangement.pipeline.schedule == recipe::PipelineSchedule::kDualPipe) {
      same.name = "pp shared gradients";
      early_sums_ = std::move(pipeline.split({same})[0]);
    }
    if (pipeline.in_order()) make_ways(pipeline, layout::ways_of(place_.pipeline()));
  }
}

void Ranks::make_ways(comm::Communicator& pipeline, const std::vector<layout::MessageWay>& ways) {
  std::vector<layout::GroupKind> kinds;
  for (const layout::MessageWay& way : ways) {
    const char* const what = way.channel == layout::Channel::kActivations ? "hidden states" : "gradients";
    kinds.push_back({.name = fmt::format("pp {} {} to {}", what, way.sender, way.receiver),
                     .groups = {{way.sender, way.receiver}}});
  }
  auto groups = pipeline.split(kinds, {.name = "ways of the pipeline"});
  for (size_t i = 0; i < ways.size(); ++i) {
    if (groups[i]) ways_[ways[i]] = std::move(groups[i]);
  }
}

Ranks::WayEnd Ranks::way(const layout::MessageWay& way, int64_t peer) const {
  if (!ways_.empty()) return {*ways_.at(way), peer == way.sender ? 0 : 1};
  return {way.channel == layout::Channel::kActivations ? groups_->over({Axis::kPp}) : stage_gradients(),
          peer};
}

Ranks::~Ranks() = default;

Sharding* Ranks::sharding_of(model::ParameterSet& parameters) const {
  if (values_ == nullptr) return nullptr;
  if (parameters.watched_by() == nullptr) {
    parameters.watch(std::make_unique<Sharding>(
        parameters, [this](AxisSet over) -> comm::Communicator& { return values_->over(over); },
        [this](AxisSet over) -> comm::Communicator& { return groups_->over(over); }));
  }
  return static_cast<Sharding*>(parameters.watched_by());
}

void Ranks::share_values(model::ParameterSet& parameters, bool by_step) const {
  if (Sharding* sharding = sharding_of(parameters)) sharding->share_values(by_step);
}

void Ranks::settle_values(model::ParameterSet& parameters) const {
  if (Sharding* sharding = sharding_of(parameters)) sharding->settle_values();
}

layout::RowShare Ranks::share() const {
  return {.context_ranks = place_.mesh.size(Axis::kCp),
          .context_rank = place_.coordinate(Axis::kCp),
          .tensor_ranks = place_.mesh.size(Axis::kTp),
          .tensor_rank = place_.coordinate(Axis::kTp),
          .split = context_.split};
}

void Ranks::begin_step(model::ParameterSet& parameters, int64_t micro_batches) {
  sums_.clear();
  started_ = summed_ = 0;
  sums_of_stages_.reset();
  if (tree_ != nullptr) tree_->begin_step(parameters, micro_batches);
  if (groups_ == nullptr && tree_ == nullptr) return parameters.begin_step({});
  for (auto arena = parameters.arenas().rbegin(); arena != parameters.arenas().rend(); ++arena) {
    if ((*arena)->trains() && !(*arena)->gradients_come) sums_.push_back({.arena = arena->get()});
  }
  if (groups_ != nullptr && place_.mesh.size(Axis::kPp) > 1)
    sums_of_stages_.emplace(early_sums_ ? *early_sums_ : groups_->over({Axis::kPp}), parameters);
  parameters.begin_step([this](const model::Arena& arena) {
    const auto sum = std::ranges::find(sums_, &arena, &Sum::arena);
    if (sum == sums_.end()) return;  // it holds nothing here, or its gradients leave after each backward pass
    sum->ready = true;
    start_sums();
  });
}

void Ranks::start_sums() {
  for (; started_ < sums_.size() && sums_[started_].ready; ++started_) {
    Sum& sum = sums_[started_];
    const model::Arena& arena = *sum.arena;
    if (tree_ != nullptr) {
      tree_->start_sum(arena);
      continue;
    }
    const comm::CallOptions options{.name = "gradients of " + arena.name, .priority = kSumsOfGradients};
    sum.work = arena.cut() ? started_sum(groups_->over(arena.sharers), arena.gradients, arena.own_gradients,
                                         arena.gradient_shares, options)
                           : started_sum(groups_->over(arena.copies()), arena.gradients, arena.gradients, {},
                                         options);
  }
  start_sums_of_stages();
}

// As soon as the sum over copies is there. Shares of which several ranks hold copies, and sums in the order
// of a tree, are there at the end of the step only.
void Ranks::start_sums_of_stages() {
  if (!sums_of_stages_ || early_sums_ == nullptr || tree_ != nullptr) return;
  for (; summed_ < started_; ++summed_) {
    Sum& sum = sums_[summed_];
    if ((sum.arena->cut() && !sum.arena->share_copies.empty()) || !sum.work.done()) break;
    sum.work.wait();
    sums_of_stages_->complete(*sum.arena);
  }
  sums_of_stages_->advance();
}

void Ranks::sum_gradients(model::ParameterSet& parameters) {
  parameters.end_step();
  const at::NoGradGuard no_gradient;
  for (Sum& sum : sums_) sum.ready = true;
  start_sums();
  if (tree_ != nullptr) tree_->end_step();
  if (groups_ == nullptr) return;
  std::vector<comm::Work> between_copies;
  for (Sum& sum : sums_) {
    if (tree_ == nullptr) sum.work.wait();
    sum.arena->zero_others();
    if (!sum.arena->cut() || sum.arena->share_copies.empty()) continue;
    between_copies.push_back(started_sum(
        groups_->over(sum.arena->share_copies), sum.arena->own_gradients, sum.arena->own_gradients, {},
        {.name = "shares of gradients of " + sum.arena->name, .priority = kSumsBetweenCopies}));
  }
  for (comm::Work& work : between_copies) work.wait();
  if (Sharding* sharding = sharding_of(parameters)) sharding->end_step();
  if (sums_of_stages_) sums_of_stages_->finish();
}

void Ranks::sum_over_stages(const model::Parameter& parameter, const Tensor& numbers,
                            const std::string& name) const {
  if (groups_ == nullptr || parameter.parts.empty() || parameter.parts[0].spec.pipeline_ranks.size() < 2)
    return;
  comm::Communicator& pipeline = groups_->over({Axis::kPp});
  std::vector<Tensor> all;
  std::vector<comm::Transfer> transfers;
  for (const int64_t rank : parameter.parts[0].spec.pipeline_ranks) {
    all.push_back(rank == pipeline.rank() ? numbers : at::empty_like(numbers));
    if (rank == pipeline.rank()) continue;
    transfers.push_back(comm::send_to(rank, numbers));
    transfers.push_back(comm::receive_from(rank, all.back()));
  }
  pipeline.exchange(std::move(transfers), {.name = name}).wait();
  Tensor sum = all[0].clone();
  for (size_t i = 1; i < all.size(); ++i) sum.add_(all[i]);
  numbers.copy_(sum);
}

void Ranks::sum(const Tensor& numbers, const std::string& name) const {
  if (groups_ != nullptr) groups_->world().all_reduce(numbers, Reduction::kSum, {.name = name}).wait();
}

void Ranks::reduce_over(layout::AxisSet axes, const Tensor& numbers, Reduction how) const {
  if (groups_ != nullptr)
    groups_->over(axes).all_reduce(numbers, how, {.name = "sums of the optimizer"}).wait();
}

double Ranks::sum(double number, const std::string& name) const {
  if (groups_ == nullptr) return number;
  const Tensor one = at::full({1}, number, at::kDouble);
  sum(one, name);
  return one.item<double>();
}

double Ranks::sum_of_run(double number, const std::string& name) const {
  if (world_ == nullptr) return number;
  const Tensor one = at::full({1}, number, at::kDouble);
  world_->all_reduce(one, Reduction::kSum, {.name = name}).wait();
  return one.item<double>();
}

int64_t Ranks::most(int64_t number) const {
  if (groups_ == nullptr) return number;
  const Tensor one = at::full({1}, number, at::kLong);
  world_->all_reduce(one, Reduction::kMax, {.name = "what the ranks agree on"}).wait();
  return one.item<int64_t>();
}

std::unique_ptr<comm::Communicator> Ranks::everyone(const std::string& purpose) const {
  if (world_ == nullptr) return nullptr;
  layout::GroupKind all{.name = purpose,
                        .groups = {std::vector<int64_t>(static_cast<size_t>(world_->size()))}};
  std::iota(all.groups[0].begin(), all.groups[0].end(), int64_t{0});
  return std::move(world_->split({all}, {.name = purpose})[0]);
}

double Ranks::sum_over_replicas(double number) const {
  if (groups_ == nullptr) return number;
  const Tensor one = at::full({1}, number, at::kDouble);
  groups_->over({Axis::kDp}).all_reduce(one, Reduction::kSum, {.name = "weight of the step"}).wait();
  return one.item<double>();
}

}  // namespace longhaul::parallel
