#include "train/memory.h"

#include <algorithm>
#include <string>

#include "base/machine.h"
#include "base/parallel.h"
#include "checkpoint/tier_nodes.h"
#include "kernels/linear_recurrence/cpu.h"
#include "plan/memory_guard.h"
#include "plan/memory_rank.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::train {
namespace {

// Rows begin inside a document more often than not, so each holds a part more than fits whole.
int64_t documents_at_once(const recipe::Recipe& recipe, const data::RunData& data) {
  int64_t documents = 0, tokens = 0;
  for (const auto& source : data.sources) {
    documents += source.train.documents();
    tokens += source.train.tokens() + source.train.documents();
  }
  if (documents == 0 || !recipe.data.document_boundaries) return 0;
  return recipe.train.micro_batch * (1 + recipe.train.sequence * documents / tokens);
}

// Whether a copy of the state, for a checkpoint, is there while steps go on.
bool saves_between(const recipe::TrainOptions& train) {
  const bool on_disk = train.checkpoint_every != 0 && train.checkpoint_every < train.steps;
  const bool in_memory = train.checkpoint_memory_every != 0 && train.steps > 1 && checkpoint::tier_place_of_process();
  return on_disk || in_memory;
}

}  // namespace

plan::MemoryRequest memory_request(const recipe::Recipe& recipe, at::Device device, const data::RunData* data) {
  const recipe::TrainOptions& train = recipe.train;
  return {.model = recipe.model,
          .dtype = train.dtype,
          .optimizer = recipe.optim,
          .batch = train.batch,
          .micro_batch = train.micro_batch,
          .sequence = train.sequence,
          .documents = data != nullptr ? documents_at_once(recipe, *data) : 0,
          .recompute = train.recompute,
          .offload = train.offload != recipe::Offload::kNone,
          .elastic = train.elastic,
          .prefetch = recipe.data.prefetch,
          .threads = threads(),
          .saves_between = saves_between(train),
          .evaluates = train.evaluate_every > 0,
          .on_gpu = device.is_cuda(),
          .l2_bytes = machine().l2_bytes,
          .products_per_second = kernels::recurrence_products_per_second()};
}

plan::MemoryPlan memory_plan(const recipe::Recipe& recipe, const parallel::Arrangement& arrangement, std::optional<int64_t> rank,
                             at::Device device, const data::RunData* data) {
  plan::MemoryRequest request = memory_request(recipe, device, data);
  if (arrangement.world() == 1) return plan_memory(request);
  const auto of_rank = [&](int64_t number) {
    return plan::plan_rank_memory(request, {.place = {.mesh = arrangement.mesh,
                                                      .rank = number % arrangement.mesh.world(),
                                                      .pipelined = arrangement.pipeline,
                                                      .zero = arrangement.zero,
                                                      .elastic = arrangement.elastic},
                                            .context = arrangement.context});
  };
  if (rank) return of_rank(*rank);
  request.threads = std::max<int64_t>(1, request.threads / arrangement.world());
  plan::MemoryPlan together{.moments = {{.name = "the fullest of each rank", .bytes = {}}}};
  plan::PurposeBytes peaks;
  for (int64_t number = 0; number < arrangement.world(); ++number) {
    const plan::MemoryPlan each = of_rank(number);
    const plan::PurposeBytes& most = each.fullest().bytes;
    for (size_t i = 0; i < kMemoryPurposes; ++i) {
      const auto purpose = static_cast<MemoryPurpose>(i);
      together.moments[0].bytes[purpose] += most[purpose];
      peaks[purpose] += each.peaks()[purpose];
    }
    together.not_tensors += each.not_tensors;  // threads have no back end that holds anything
  }
  for (size_t i = 0; i < kMemoryPurposes; ++i) {  // each purpose has a fullest moment of its own
    together.moments.push_back({.name = "of one purpose", .bytes = {}});
    together.moments.back().bytes[static_cast<MemoryPurpose>(i)] = peaks[static_cast<MemoryPurpose>(i)];
  }
  return together;
}

int64_t available_bytes(at::Device device) {
  if (device.is_cuda()) return device_memory(device).free_bytes;
  // Stack and malloc's own ranges; OpenMP ends the program where a thread cannot have them.
  constexpr int64_t kAddressSpaceOfThread = int64_t{80} << 20;
  return std::clamp<int64_t>(free_address_space_bytes() - threads() * kAddressSpaceOfThread, 0, available_memory_bytes());
}

std::vector<observe::PlannedMemory> planned_memory(const plan::MemoryPlan& plan) {
  const plan::PurposeBytes& bytes = plan.fullest().bytes;
  std::vector<observe::PlannedMemory> rows;
  for (size_t i = 0; i < kMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    if (bytes[purpose] > 0) rows.push_back({std::string(longhaul::name_of(purpose)), plan::whole_bytes(bytes[purpose])});
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
    rows.push_back({name_of(device) + ", tensors", gpu.allocated_bytes, gpu.peak_allocated_bytes, plan::whole_bytes(plan.device_peak())});
    rows.push_back({name_of(device) + ", held", gpu.held_bytes, gpu.peak_held_bytes, {}});
  }
  for (size_t i = 0; i < kMemoryPurposes; ++i) {
    const auto purpose = static_cast<MemoryPurpose>(i);
    const MemoryUse& use = statistics.of(purpose);
    const bool here = device.is_cpu() || purpose == MemoryPurpose::kData || purpose == MemoryPurpose::kCheckpoint;
    const double bytes = here ? planned[purpose] : 0;
    if (use.peak > 0 || bytes > 0) rows.push_back({std::string(longhaul::name_of(purpose)), use.bytes, use.peak, plan::whole_bytes(bytes)});
  }
  rows.push_back({"together", statistics.total.bytes, statistics.total.peak, {}});
  if (device.is_cpu()) rows.back().planned_bytes = plan::whole_bytes(plan.peak());
  rows.push_back({"of the machine", statistics.held_bytes, statistics.peak_held_bytes, {}});
  return rows;
}

}  // namespace longhaul::train
