// Llama's published names, as Hugging Face files have them (rotary pairs (j, j + dim/2), which are ours too): bf16, [out, in].
#pragma once

#include "model/families/families.h"

namespace longhaul::model {

std::vector<PublicTensor> llama_tensors(const recipe::ModelConfig& config);

}  // namespace longhaul::model
