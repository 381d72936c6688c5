// The memory that a pipeline rank needs for its micro-batches during the backward pass of one of them, found
// by walking the list of actions of the real training (layout/schedule/schedule.h), so that nothing here
// depends on the method. In bytes.
//
// A tensor exists from the action that makes it: received hidden states and gradients from the start of their
// receive, what a stage keeps from its forward to its backward pass, and postponed products from a backward
// pass of inputs to the pass of weights. A sent gradient is not counted, because it is free as soon as the
// other rank has it, and that rank's receive has started before.
#pragma once

#include <optional>
#include <vector>

#include "layout/schedule/schedule.h"

namespace longhaul::plan {

struct StageBytes {
  // By a micro-batch, in addition to the hidden states that enter the stage from other ranks.
  double kept = 0;
  double hidden = 0;     // of hidden states in transfer between stages, and of their gradients
  double postponed = 0;  // after a backward pass of inputs
  // Kept data is in a file and is read back in addition to what has entered (train.offload).
  bool read_back = false;
};

// For a chunk: the peak in addition to what the stage itself has kept of the micro-batch, in a backward pass
// and in one of inputs only; none: there is no such pass.
struct BesideStage {
  std::optional<double> backward, backward_input;
};

std::vector<BesideStage> beside_stages(const layout::Schedule& schedule, int64_t rank,
                                       const std::vector<StageBytes>& chunks);

}  // namespace longhaul::plan
