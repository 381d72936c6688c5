// Pipeline executor: a rank's list of a schedule (layout/schedule.h), run: forward and backward passes of its stages, hidden states and their
// gradients to and from neighbouring ranks. It knows no schedule and no model: the list says what comes when, StageCalls what a stage is. One rank
// without neighbours is a list too: forward, backward, forward, backward, …
//
// Sends and receives of hidden states and of their gradients go by two communicators, so neither waits behind the other. A message is named by
// what it carries, so ranks that walk different lists are told so.
#pragma once

#include <functional>

#include "layout/schedule.h"
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
