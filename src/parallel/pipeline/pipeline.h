// Pipeline executor: runs a rank's list of actions of a schedule (layout/schedule/schedule.h): forward and
// backward passes of its stages, and the exchange of hidden states and their gradients with neighbouring
// ranks. It knows neither schedules nor models: the list says what happens when, and StageCalls says what a
// stage is. A single rank without neighbours has a list too: forward, backward, forward, backward, …
//
// A pair is the forward pass of one micro-batch and the backward pass of another. Where the schedule asks for
// it, the two run in turns: after each exchange of expert rows that one pass has started, the other computes
// until it has started one as well (docs/sources/moe-parallel-folding.md §3.6 (b); expert_dispatch.h):
//
//   sent         combine of B | dispatch of F | dispatch of B              | combine of F
//   computed     mixer of F   | experts of B  | weights of B, experts of F | mixer of B                  (B:
//                gradients; combine comes first there)
//
// Contributions of both passes to the same gradient are added in the order of the forward pass first
// (last_in_turn), so no bit changes.
//
// Hidden states and their gradients use two separate communicators, so that neither waits for the other. A
// message is named after what it carries, so ranks that walk different lists get an error.
#pragma once

#include "layout/schedule/schedule.h"
#include "parallel/ranks.h"

namespace longhaul::parallel {

// What the stages of a rank are.
class StageCalls {
 public:
  virtual ~StageCalls() = default;
  // Runs the rank's chunk. Returns the hidden states for the next stage or, in the model's last stage, the
  // loss: a scalar whose gradient is 1. `entering` is undefined in the model's first stage. The call is
  // recorded for the backward pass where the schedule trains.
  virtual Tensor forward_chunk(int64_t chunk, int64_t micro_batch, const Tensor& entering) = 0;
  // memory for the input of a stage; asked where that comes from another rank
  virtual Tensor input_memory(int64_t micro_batch) = 0;
};

// Weight gradients are accumulated in `parameters` by the time this returns.
void run_schedule(const layout::Schedule& schedule, const Ranks& ranks, model::ParameterSet& parameters,
                  StageCalls& calls);

}  // namespace longhaul::parallel
