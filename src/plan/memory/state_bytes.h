// The model state on a rank of a mesh, before anything is created: bytes of weights, gradients and optimizer
// state at every stage of ZeRO (layout::MeshRank::zero), and the temporary parts during the passes through a
// layer: those of the layer, and of the next or previous one, whose values are being fetched or whose
// gradients are still being summed. Shares are assumed even, which is true except for one row of each layer.
// tests/run/memory/rank_state_test.cpp compares it with what ranks have created.
#pragma once

#include <string>
#include <vector>

#include "layout/parameters.h"
#include "recipe/sections/optim_options.h"
#include "recipe/sections/train_options.h"

namespace longhaul::plan {

struct RankState {
  double weights = 0, gradients = 0, optimizer = 0;  // held at all times
  // held during the optimizer's step (plan/memory/update_memory.h)
  double updating = 0;
  double passing_weights = 0, passing_gradients = 0;  // peak of the temporary parts
  // Gradients of one layer, or of everything outside the layers, that ranks sum.
  double largest_sum = 0;
  // in addition to gradients that several stages share, while these are summed
  double stage_sums = 0;
  // Part of passing_weights that is fetched after an update for the next step: outside the layers, and the
  // first one's.
  double early_weights = 0;
};

// parameters: those that the modules of the rank's stages use (layout::parameters_of, or a model's own list).
RankState rank_state(const std::vector<layout::ParameterSpec>& parameters, recipe::Dtype dtype,
                     const recipe::OptimOptions& optimizer, const layout::MeshRank& place);
RankState rank_state(const recipe::ModelConfig& model, recipe::Dtype dtype,
                     const recipe::OptimOptions& optimizer, const layout::MeshRank& place);

}  // namespace longhaul::plan
