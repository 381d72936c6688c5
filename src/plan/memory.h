// Bytes that training keeps from step to step, known before anything is allocated. Activations, and the packed copies of
// weights that products on a CPU keep, come on top.
//
//   bf16: weights 2, gradients 4, optimizer 12 (fp32 master and two moments);  fp32: 4, 4, 8;  fp64: 8, 8, 16 bytes a parameter
//
// Norms and routers stay fp32 in a bf16 run; they are counted like the others, a little too high.
#pragma once

#include <cstdint>
#include <string_view>

#include "recipe/model_config.h"

namespace longhaul::plan {

struct TrainingState {
  int64_t weights = 0, gradients = 0, optimizer = 0;
  int64_t total() const { return weights + gradients + optimizer; }
};

TrainingState training_state_bytes(const recipe::ModelConfig& config, std::string_view dtype);  // "bf16", "fp32", "fp64"

// Error 68 when the state alone does not fit into what is there: a message at once instead of gigabytes allocated first.
void require_memory(const TrainingState& state, int64_t available_bytes);

}  // namespace longhaul::plan
