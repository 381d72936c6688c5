// GPT-2's published names, as in the released safetensors file (no "transformer." before them; files saved from a model with its
// head have that prefix). fp32. Matrices are stored [in, out], the transpose of ours; query, key and value are one matrix.
// The causal masks that some files hold (h.N.attn.bias, h.N.attn.masked_bias) are buffers, not parameters.
#pragma once

#include "model/families/families.h"

namespace longhaul::model {

std::vector<PublicTensor> gpt2_tensors(const recipe::ModelConfig& config);

}  // namespace longhaul::model
