// Routes: which experts the routers of a model sent the tokens of a pass to. Recorded in one pass, they are replayed in another: so reinforcement
// learning judges a text with the experts that wrote it, where a router that has moved, or rounds otherwise, would take others (docs/sources/moe-parallel-folding.md §4.2;
// Megatron-LM's router replay; arXiv 2510.11370).
//
//   context.recorded_routes = std::make_shared<Routes>();        // filled by the pass
//   context.replayed_routes = routes;                            // what a pass uses in place of every choice
//
// Replayed, a choice is what it says, whatever model.router_choice, a bias or groups would have chosen; what else there is of a router stays: jitter of its input,
// scores, their normalisation and scale, which make the weights of the model at hand from these experts, and gradients through those. Balance losses, statistics and what
// moves a router's bias count the replayed choices; the thresholds of a choice by quantile stay as they are. A capacity (expert_capacity.h) is applied behind it in
// training as ever, and recorded is what was chosen before anything is dropped.
//
// A pass has a context of its own (context.h), so each micro-batch has its routes. Among ranks each records and replays the rows of its own tokens, in the order of
// its hidden states (layout/sequence_view.h), of the layers that it has; nobody tells anybody.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipe/architecture/model_config.h"
#include "tensor/tensor.h"

namespace longhaul::model {

// By block ("layers.3.experts"): int64 [own tokens, k], best first where a router chose, on the device of the model. Replayed, every block that the pass runs has
// an entry, or is an assertion; an undefined tensor: it chooses by itself (the modules of model.predict_ahead, which no text passes through).
using Routes = std::map<std::string, Tensor>;

std::vector<std::string> blocks_with_routers(const recipe::ModelConfig& config);  // of the decoder's layers, in their order

}  // namespace longhaul::model
