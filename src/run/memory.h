// The memory of a run: the request to the planner (plan/memory/memory.h), the free memory, and the
// allocator's counts compared with the plan.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "data/run_data.h"
#include "observe/events/event.h"
#include "observe/table.h"
#include "parallel/pipeline/arrangement.h"
#include "plan/memory/memory.h"
#include "recipe/recipe.h"
#include "tensor/device.h"
#include "train/model_plan.h"

namespace longhaul::run {

// Uses the present number of compute threads. `data`, once opened, says how many documents a micro-batch
// holds on average.
plan::MemoryRequest memory_request(const recipe::Recipe& recipe, at::Device device,
                                   const data::RunData* data = nullptr);

// The plan for rank `rank` of a run. Without a rank: for this process, whose threads are the ranks, with the
// sum over the ranks for each purpose. The state of outer loops is not included.
plan::MemoryPlan memory_plan(const train::ModelPlan& model, const recipe::Recipe& recipe,
                             const parallel::Arrangement& arrangement, std::optional<int64_t> rank,
                             at::Device device, const data::RunData* data = nullptr);

// The plan for these ranks of a run of processes together, as above.
plan::MemoryPlan memory_plan_of(const train::ModelPlan& model, const plan::MemoryRequest& request,
                                const parallel::Arrangement& arrangement, std::span<const int64_t> ranks);

int64_t available_bytes(at::Device device);  // free memory where weights and activations are allocated

// Refuses (error 68), before anything is allocated, a run that does not fit into `free_bytes`, the memory
// available to this process. Ranks that are threads are judged together. For ranks that are processes it is a
// collective call: each is judged by itself, and those of one machine together, because they share its
// memory.
void require_memory(const train::ModelPlan& model, const recipe::Recipe& recipe,
                    const parallel::Arrangement& arrangement, at::Device device, int64_t free_bytes,
                    comm::Communicator* processes);

// the rows of the table at the start
std::vector<observe::PlannedMemory> planned_memory(const plan::MemoryPlan& plan);
// Measured since the last reset_memory_peaks(); the rows are those of `memory` events.
std::vector<observe::MeasuredMemory> measured_memory(const plan::MemoryPlan& plan, at::Device device);

}  // namespace longhaul::run
