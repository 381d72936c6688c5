// MiniMax-Text-01's published names (minimax-01.md §1.3): bf16, the router fp32; a lightning layer's query, key and value rows are
// grouped by head; w1, w3, w2 of an expert are gate, up, down.
#pragma once

#include "model/families/families.h"

namespace longhaul::model {

std::vector<PublicTensor> minimax_tensors(const recipe::ModelConfig& config);

}  // namespace longhaul::model
