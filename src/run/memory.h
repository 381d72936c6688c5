// The memory of a run: what is asked of the plan (plan/memory/memory.h), what is free, and what the allocator counted beside what was planned.
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

// With the compute threads as they are set. `data`, once it is open, says how many documents a micro-batch holds on average.
plan::MemoryRequest memory_request(const recipe::Recipe& recipe, at::Device device, const data::RunData* data = nullptr);

// Of rank `rank` of a run; nothing: of this process, whose threads are the ranks, each purpose as much as all of them together have at most. Not of
// outer loops' own state.
plan::MemoryPlan memory_plan(const train::ModelPlan& model, const recipe::Recipe& recipe, const parallel::Arrangement& arrangement,
                             std::optional<int64_t> rank, at::Device device, const data::RunData* data = nullptr);

// Of these ranks of a run of processes together, as above.
plan::MemoryPlan memory_plan_of(const train::ModelPlan& model, const plan::MemoryRequest& request, const parallel::Arrangement& arrangement,
                                std::span<const int64_t> ranks);

int64_t available_bytes(at::Device device);  // where weights and activations go

// Refuses (error 68) what does not fit into `free_bytes`, what is available to this process, before anything is allocated: ranks that are its threads
// together; of ranks that are processes, a collective call of them, each by itself and those of this machine together, which share its memory.
void require_memory(const train::ModelPlan& model, const recipe::Recipe& recipe, const parallel::Arrangement& arrangement,
                    at::Device device, int64_t free_bytes, comm::Communicator* processes);

std::vector<observe::PlannedMemory> planned_memory(const plan::MemoryPlan& plan);  // the rows of the table at the start
// Since the last reset_memory_peaks(); rows as the `memory` events have them.
std::vector<observe::MeasuredMemory> measured_memory(const plan::MemoryPlan& plan, at::Device device);

}  // namespace longhaul::run
