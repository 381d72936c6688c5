// What a rank of a pipeline holds of its micro-batches while it runs the backward pass of one of them, walked off the list that trains
// (layout/schedule/schedule.h): nothing here knows a method's name. Bytes.
//
// A tensor is there from the action that makes it: hidden states and gradients that are received from the start of their receive on, what a stage keeps
// from its forward to its backward pass, products that a backward pass of inputs has postponed until their own pass. A gradient that was sent is not
// counted: it is free as soon as the other rank has it, and the receive of that one has started before.
#pragma once

#include <optional>
#include <vector>

#include "layout/schedule/schedule.h"

namespace longhaul::plan {

struct StageBytes {
  double kept = 0;         // by a micro-batch, beside the hidden states that enter the stage from elsewhere
  double hidden = 0;       // of hidden states on their way between stages, and of their gradients
  double postponed = 0;    // behind a backward pass of inputs
  bool read_back = false;  // what is kept lies elsewhere, and is read beside what has entered (train.offload)
};

// Of a chunk: the most beside what the stage itself has kept of the micro-batch, in a backward pass and in one of inputs alone; none: there is no such pass.
struct BesideStage {
  std::optional<double> backward, backward_input;
};

std::vector<BesideStage> beside_stages(const layout::Schedule& schedule, int64_t rank, const std::vector<StageBytes>& chunks);

}  // namespace longhaul::plan
