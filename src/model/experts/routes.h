// Routes: the experts to which the routers of a model sent the tokens of a pass. Routes that were recorded in
// one pass can be replayed in another. Reinforcement learning thereby judges a text with the experts that
// wrote it, where a router that has changed, or rounds differently, would choose others
// (docs/sources/moe-parallel-folding.md §4.2; Megatron-LM's router replay; arXiv 2510.11370).
//
//   context.recorded_routes = std::make_shared<Routes>();        // filled by the pass
//   context.replayed_routes = routes;                            // used by the pass instead of every choice
//
// Replay overrides the choice, whatever model.router_choice, a bias or groups would have chosen. The rest of
// the router stays: jitter of its input, scores, their normalisation and scale, which compute the weights of
// these experts with the present model, and the gradients through them. Balance losses, statistics and
// updates of a router's bias count the replayed choices; the thresholds of a choice by quantile stay
// unchanged. In training, a capacity (expert_capacity.h) is applied after the replay as usual, and recording
// happens before anything is dropped.
//
// Each pass has its own context (context.h), so each micro-batch has its own routes. Each rank records and
// replays the rows of its own tokens, in the order of its hidden states (layout/sequence_view.h), for the
// layers that it has; nothing is exchanged.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recipe/architecture/model_config.h"
#include "tensor/tensor.h"

namespace longhaul::model {

// By block ("layers.3.experts"): int64 [own tokens, k], best first where a router chose, on the device of the
// model. Replayed, every block that the pass runs has an entry, or is an assertion; an undefined tensor: it
// chooses by itself (the modules of model.predict_ahead, which no text passes through).
using Routes = std::map<std::string, Tensor>;

// of the decoder's layers, in their order
std::vector<std::string> blocks_with_routers(const recipe::ModelConfig& config);

}  // namespace longhaul::model
