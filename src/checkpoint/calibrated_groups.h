// Weights in eight bits whose scales were chosen by what the matrices read (kernels/spikes/calibration.h).
#pragma once

#include <map>
#include <string>

#include "checkpoint/open_model.h"

namespace longhaul::checkpoint {

// Reads the stored weights of a model that was opened with spikes once more, and rounds them anew for inputs
// with these mean squares (fp64 [inputs]), by the parameters' names; parameters without any stay. Returns how
// many were rounded.
int64_t calibrate_groups(OpenModel& model, const std::map<std::string, Tensor>& square_of);

}  // namespace longhaul::checkpoint
