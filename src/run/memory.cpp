#include "run/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/machine/machine.h"
#include "base/memory/shared_memory.h"
#include "base/threads/parallel.h"
#include "checkpoint/memory_tier/tier_nodes.h"
#include "kernels/linear_recurrence/cpu/cpu.h"
#include "optim/schedule.h"
#include "plan/memory/exact_memory.h"
#include "plan/memory/memory_guard.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::run {
namespace {

// Rows begin inside a document more often than not, so each holds a part more than fits whole.
int64_t documents_at_once(const recipe::Recipe& recipe, const data::RunData& data) {
  int64_t documents = 0, tokens = 0;
  for (const auto& source : data.sources) {
    documents += source.train.documents();
    tokens += source.train.labels();
  }
  if (documents == 0 || tokens == 0 || !recipe.data.document_boundaries) return 0;
  return recipe.train.micro_batch * (1 + recipe.train.sequence * documents / tokens);
}

// Sequences a step, at most.
int64_t largest_batch(const recipe::Recipe& recipe) {
  int64_t batch = recipe.train.batch;
  for (const recipe::OptimStage& stage : recipe.optim.stages) batch = std::max(batch, stage.batch);
  while (recipe.optim.batch_growth > 0 && 2 * batch <= recipe.optim.batch_most) batch *= 2;
  return batch;
}

// The recipe as the steps with one length of sequences have it, for each of these lengths: with that length,
// and with the largest batch of these steps. One length: the recipe as it is.
std::vector<recipe::Recipe> by_sequence(const recipe::Recipe& recipe) {
  const optim::TrainSchedule schedule(recipe.optim, recipe.train);
  if (!schedule.changes_sequence()) return {recipe};
  std::map<int64_t, int64_t> batches;
  for (const optim::StageState& stage : schedule.stages())
    batches[stage.sequence] = std::max(batches[stage.sequence], stage.batch);
  std::vector<recipe::Recipe> all;
  for (const auto& [sequence, batch] : batches) {
    all.push_back(recipe);
    all.back().train.sequence = sequence;
    all.back().train.batch = batch;
    all.back().optim.stages.clear();
  }
  return all;
}

// Whether a copy of the state, for a checkpoint, is there while steps go on.
bool saves_in_memory(const recipe::TrainOptions& train) {
  return train.checkpoint_memory_every != 0 && train.steps > 1 && checkpoint::tier_place_of_process();
}
bool saves_between(const recipe::TrainOptions& train) {
  const bool on_disk = train.checkpoint_every != 0 && train.checkpoint_every < train.steps;
  return on_disk || saves_in_memory(train);
}

}  // namespace

plan::MemoryRequest memory_request(const recipe::Recipe& recipe, at::Device device,
                                   const data::RunData* data) {
  const recipe::TrainOptions& train = recipe.train;
  return {.model = recipe.model,
          .dtype = train.dtype,
          .optimizer = recipe.optim,
          .batch = largest_batch(recipe),
          .micro_batch = train.micro_batch,
          .sequence = train.sequence,
          .documents = data != nullptr ? documents_at_once(recipe, *data) : 0,
          .recompute = train.recompute,
          .recompute_layers = train.recompute_layers,
          .offload = train.offload != recipe::Offload::kNone,
          .to_host = train.offload == recipe::Offload::kHost,
          .host_share = recipe::parse_offload_share(train.offload_share),
          .host_memory = train.offload_memory,
          .elastic = train.elastic,
          .prefetch = recipe.data.prefetch,
          .threads = threads(),
          .saves_between = saves_between(train),
          .checkpoint_copies = saves_in_memory(train) ? 2 : 1,
          .evaluates = train.evaluate_every > 0,
          .on_gpu = device.is_cuda(),
          .l2_bytes = machine().l2_bytes,
          .products_per_second = kernels::recurrence_products_per_second()};
}

namespace {

plan::MemoryPlan plan_of_rank(const train::ModelPlan& model, const plan::MemoryRequest& request,
                              const parallel::Arrangement& arrangement, int64_t rank, bool processes = true) {
  const plan::RankRequest of_rank{.place = {.mesh = arrangement.mesh,
                                            .rank = rank % arrangement.mesh.world(),
                                            .pipelined = arrangement.pipeline,
                                            .zero = arrangement.zero,
                                            .elastic = arrangement.elastic},
                                  .context = arrangement.context,
                                  .experts = arrangement.experts,
                                  .first_worker = rank < arrangement.mesh.world(),
                                  .processes = processes};
  return model.memory(request, &of_rank);
}

plan::MemoryPlan plan_together(const train::ModelPlan& model, const plan::MemoryRequest& request,
                               const parallel::Arrangement& arrangement, std::span<const int64_t> ranks,
                               bool processes) {
  plan::MemoryPlan together{.moments = {{.name = "the fullest of each rank", .bytes = {}}}};
  plan::PurposeBytes peaks;
  for (const int64_t rank : ranks) {
    const plan::MemoryPlan each = plan_of_rank(model, request, arrangement, rank, processes);
    const plan::PurposeBytes& most = each.fullest().bytes;
    for (size_t i = 0; i < kMemoryPurposes; ++i) {
      const auto purpose = static_cast<MemoryPurpose>(i);
      together.moments[0].bytes[purpose] += most[purpose];
      peaks[purpose] += each.peaks()[purpose];
    }
    together.communication += each.communication;
    together.not_tensors += each.not_tensors;
  }
  for (size_t i = 0; i < kMemoryPurposes; ++i) {  // each purpose has a fullest moment of its own
    together.moments.push_back({.name = "of one purpose", .bytes = {}});
    together.moments.back().bytes[static_cast<MemoryPurpose>(i)] = peaks[static_cast<MemoryPurpose>(i)];
  }
  return together;
}

// Of all ranks, as threads of this process, which share its compute threads.
plan::MemoryPlan plan_of_threads(const train::ModelPlan& model, plan::MemoryRequest request,
                                 const parallel::Arrangement& arrangement) {
  request.threads = std::max<int64_t>(1, request.threads / arrangement.world());
  std::vector<int64_t> all(static_cast<size_t>(arrangement.world()));
  std::iota(all.begin(), all.end(), int64_t{0});
  return plan_together(model, request, arrangement, all, /*processes=*/false);
}

}  // namespace

plan::MemoryPlan memory_plan_of(const train::ModelPlan& model, const plan::MemoryRequest& request,
                                const parallel::Arrangement& arrangement, std::span<const int64_t> ranks) {
  return plan_together(model, request, arrangement, ranks, /*processes=*/true);
}

plan::MemoryPlan memory_plan(const train::ModelPlan& model, const recipe::Recipe& recipe,
                             const parallel::Arrangement& arrangement, std::optional<int64_t> rank,
                             at::Device device, const data::RunData* data) {
  std::optional<plan::MemoryPlan> most;
  double needed = 0;
  for (const recipe::Recipe& of : by_sequence(recipe)) {
    const plan::MemoryRequest request = memory_request(of, device, data);
    plan::MemoryPlan plan = arrangement.world() == 1 ? model.memory(request, nullptr)
                            : rank                   ? plan_of_rank(model, request, arrangement, *rank)
                                                     : plan_of_threads(model, request, arrangement);
    const double needs = plan::needed_bytes(request, plan);
    if (most && needs <= needed) continue;
    most = std::move(plan);
    needed = needs;
  }
  return *most;
}

int64_t available_bytes(at::Device device) {
  if (device.is_cuda()) return device_memory(device).free_bytes;
  // Stack and malloc's own ranges; OpenMP ends the program where a thread cannot have them.
  constexpr int64_t kAddressSpaceOfThread = int64_t{80} << 20;
  return std::clamp<int64_t>(free_address_space_bytes() - threads() * kAddressSpaceOfThread, 0,
                             available_memory_bytes());
}

namespace {

// plan_on: of a request, on ranks arranged so.
plan::MemoryOwner owner_of(const train::ModelPlan& model, const plan::MemoryRequest& request,
                           const parallel::Arrangement& arrangement,
                           const std::function<plan::MemoryPlan(const plan::MemoryRequest&,
                                                                const parallel::Arrangement&)>& plan_on) {
  const layout::Mesh& mesh = arrangement.mesh;
  plan::MemoryOwner owner{.plan = [=](const plan::MemoryRequest& of) { return plan_on(of, arrangement); },
                          .replicas = arrangement.workers * mesh.size(layout::Axis::kDp),
                          .stages = mesh.size(layout::Axis::kPp)};
  for (const layout::ParameterSpec& spec : model.parameters()) owner.parameters += spec.elements();
  owner.changes = [=] {
    std::vector<plan::MemoryOwner::Change> changes;
    parallel::Arrangement shared = arrangement;
    const bool copies = arrangement.mesh.size({layout::Axis::kDp, layout::Axis::kCp}) > 1;
    for (int64_t zero = arrangement.zero + 1; copies && zero <= 3; ++zero) {
      shared.zero = zero;
      changes.push_back({fmt::format("parallel.zero={}", zero), plan_on(request, shared)});
    }
    return changes;
  };
  return owner;
}

// Ranks of this machine, and what of its memory is free to the one that sees least. A collective call: all
// have looked before one allocates.
struct RanksHere {
  std::vector<int64_t> ranks;
  int64_t free_bytes = 0;
};

RanksHere ranks_here(comm::Communicator& processes) {
  const auto machine = static_cast<int64_t>(shared_memory_id());
  const Tensor all = at::empty({2 * processes.size()}, at::kLong);
  processes
      .all_gather(at::tensor({machine, available_memory_bytes()}, at::kLong), all, {"memory of machines"})
      .wait();
  RanksHere here{.free_bytes = available_memory_bytes()};
  for (int64_t rank = 0; rank < processes.size(); ++rank) {
    if (all[2 * rank].item<int64_t>() != machine) continue;
    here.ranks.push_back(rank);
    here.free_bytes = std::min(here.free_bytes, all[2 * rank + 1].item<int64_t>());
  }
  return here;
}

// Where all sequences have the length that the recipe's train.sequence says.
void require_memory_of_length(const train::ModelPlan& model, const recipe::Recipe& recipe,
                              const parallel::Arrangement& arrangement, at::Device device, int64_t free_bytes,
                              comm::Communicator* processes) {
  const plan::MemoryRequest request = memory_request(recipe, device);
  using Request = const plan::MemoryRequest&;
  using On = const parallel::Arrangement&;
  if (arrangement.world() == 1) {
    const plan::MemoryOwner owner =
        owner_of(model, request, arrangement, [&](Request of, On) { return model.memory(of, nullptr); });
    return plan::require_memory(request, free_bytes, owner);
  }
  if (processes == nullptr) {
    plan::MemoryOwner owner = owner_of(model, request, arrangement,
                                       [&](Request of, On on) { return plan_of_threads(model, of, on); });
    owner.what =
        fmt::format("the {} ranks of this process do not fit into its memory together", arrangement.world());
    return plan::require_memory(request, free_bytes, owner);
  }
  const RanksHere here = ranks_here(*processes);
  const int64_t rank = processes->rank();
  plan::MemoryOwner own = owner_of(model, request, arrangement,
                                   [&](Request of, On on) { return plan_of_rank(model, of, on, rank); });
  own.what = fmt::format("rank {} does not fit into the memory of its process", rank);
  plan::require_memory(request, free_bytes, own);
  plan::MemoryOwner together = owner_of(model, request, arrangement, [&](Request of, On on) {
    return memory_plan_of(model, of, on, here.ranks);
  });
  together.what = fmt::format("the {} ranks of this machine ({}) do not fit into its memory together",
                              here.ranks.size(), machine().host);
  together.hint = "fewer ranks on this machine take less";
  plan::require_memory(request, here.free_bytes, together);
}

}  // namespace

void require_memory(const train::ModelPlan& model, const recipe::Recipe& recipe,
                    const parallel::Arrangement& arrangement, at::Device device, int64_t free_bytes,
                    comm::Communicator* processes) {
  const std::vector<recipe::Recipe> lengths = by_sequence(recipe);
  for (const recipe::Recipe& of : lengths) {
    try {
      require_memory_of_length(model, of, arrangement, device, free_bytes, processes);
    } catch (const Error& error) {
      if (lengths.size() == 1 || error.code() != ExitCode::kOutOfMemory) throw;
      ErrorFields fields = error.fields();
      fields.what +=
          fmt::format(", in the steps whose sequences have {} tokens (optim.stages)", of.train.sequence);
      throw Error(fields);
    }
  }
}

std::vector<observe::PlannedMemory> planned_memory(const plan::MemoryPlan& plan) {
  const plan::PurposeBytes& bytes = plan.fullest().bytes;
  std::vector<observe::PlannedMemory> rows;
  for (size_t i = 0; i < kMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    if (bytes[purpose] > 0)
      rows.push_back({std::string(longhaul::name_of(purpose)), plan::whole_bytes(bytes[purpose])});
  }
  if (plan.communication > 0) rows.push_back({"communication", plan::whole_bytes(plan.communication)});
  rows.push_back({"not tensors", plan::whole_bytes(plan.not_tensors)});
  return rows;
}

// A GPU's memory is LibTorch's to count, and it knows no purposes.
std::vector<observe::MeasuredMemory> measured_memory(const plan::MemoryPlan& plan, at::Device device) {
  if (!cpu_allocator_installed()) return {};
  const MemoryStatistics statistics = memory_statistics();
  const plan::PurposeBytes planned = plan.peaks();
  std::vector<observe::MeasuredMemory> rows;
  if (device.is_cuda()) {
    const DeviceMemory gpu = device_memory(device);
    rows.push_back({name_of(device) + ", tensors", gpu.allocated_bytes, gpu.peak_allocated_bytes,
                    plan::whole_bytes(plan.device_peak())});
    rows.push_back({name_of(device) + ", held", gpu.held_bytes, gpu.peak_held_bytes, {}});
  }
  for (size_t i = 0; i < kMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    const MemoryUse& use = statistics.of(purpose);
    const bool here =
        device.is_cpu() || purpose == MemoryPurpose::kData || purpose == MemoryPurpose::kCheckpoint;
    const double bytes = here ? planned[purpose] : 0;
    if (use.peak > 0 || bytes > 0)
      rows.push_back(
          {std::string(longhaul::name_of(purpose)), use.bytes, use.peak, plan::whole_bytes(bytes)});
  }
  rows.push_back({"together", statistics.total.bytes, statistics.total.peak, {}});
  if (device.is_cpu()) rows.back().planned_bytes = plan::whole_bytes(plan.peak());
  rows.push_back({"of the machine", statistics.held_bytes, statistics.peak_held_bytes, {}});
  return rows;
}

}  // namespace longhaul::run
