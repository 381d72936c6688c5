// What a rank of a mesh holds of the model's state, before anything is made: bytes of weights, gradients and optimizer state at every stage of
// ZeRO (layout::MeshRank::zero), and what comes for the passes through a layer and goes: the layer's, and that of the next one or the one
// before, whose values are on their way or whose gradients are still being summed. Shares are counted as even; they are so but for a row of
// each layer. tests/run/rank_state_test.cpp compares it with what ranks have made.
#pragma once

#include <string>
#include <vector>

#include "layout/parameters.h"
#include "recipe/sections/optim_options.h"
#include "recipe/sections/train_options.h"

namespace longhaul::plan {

struct RankState {
  double weights = 0, gradients = 0, optimizer = 0;   // held at all times
  double updating = 0;                                // held while the optimizer's step goes on (plan/memory/update_memory.h)
  double passing_weights = 0, passing_gradients = 0;  // the most of what comes and goes
  double largest_sum = 0;                             // of gradients of one layer, or of what is outside them, that ranks add up
  double stage_sums = 0;                              // beside gradients that several stages share, while they are added up
  double early_weights = 0;  // of it, what comes behind an update for the next step: outside the layers, and the first one's
};

// parameters: those that the modules of the rank's stages use (layout::parameters_of, or a model's own list).
RankState rank_state(const std::vector<layout::ParameterSpec>& parameters, recipe::Dtype dtype, const recipe::OptimOptions& optimizer,
                     const layout::MeshRank& place);
RankState rank_state(const recipe::ModelConfig& model, recipe::Dtype dtype, const recipe::OptimOptions& optimizer,
                     const layout::MeshRank& place);

}  // namespace longhaul::plan
