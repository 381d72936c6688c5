// Pipeline executor: a rank's list of a schedule (layout/schedule/schedule.h), run: forward and backward passes of its stages, hidden states and their
// gradients to and from neighbouring ranks. It knows no schedule and no model: the list says what comes when, StageCalls what a stage is. One rank
// without neighbours is a list too: forward, backward, forward, backward, …
//
// A pair is the forward pass of one micro-batch and the backward pass of another. Where the schedule says so they go on in turns: at every exchange of
// experts' rows that a pass has begun, the other one computes until it has begun one too (docs/sources/moe-parallel-folding.md §3.6 (b); expert_dispatch.h):
//
//   on its way   combine of B | dispatch of F | dispatch of B              | combine of F
//   computed     mixer of F   | experts of B  | weights of B, experts of F | mixer of B                  (B: gradients; combine comes first there)
//
// What the passes add to the same gradient they add in the order of the forward pass first (last_in_turn): not a bit is another.
//
// Sends and receives of hidden states and of their gradients go by two communicators, so neither waits behind the other. A message is named by
// what it carries, so ranks that walk different lists are told so.
#pragma once

#include <functional>

#include "layout/schedule/schedule.h"
#include "parallel/ranks.h"

namespace longhaul::parallel {

struct StageCalls {
  // Of the rank's chunk: hidden states that leave, or of the model's last stage the loss: a scalar, whose gradient is 1. `entering` is undefined in
  // the model's first stage. Recorded for the backward pass where the schedule trains.
  std::function<Tensor(int64_t chunk, int64_t micro_batch, const Tensor& entering)> forward;
  std::function<Tensor(int64_t micro_batch)> entering;  // memory for what enters a stage; asked where it comes from another rank
};

// Gradients of weights are added up in `parameters`, at the latest when this returns.
void run_schedule(const layout::Schedule& schedule, const Ranks& ranks, model::ParameterSet& parameters, const StageCalls& calls);

}  // namespace longhaul::parallel
