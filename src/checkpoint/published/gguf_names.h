// The content of a model's GGUF file, as llama.cpp reads it: its names and orders for the tensors of a
// family, and the fields that say what the model computes.
#pragma once

#include <string>
#include <vector>

#include "model/families/families.h"
#include "recipe/architecture/model_config.h"
#include "storage/gguf.h"

namespace longhaul::checkpoint {

// How the numbers of a public tensor get into the file.
enum class GgufOrder {
  kAsIs,
  kTransposed,  // matrices that a family stores [in, out]
  kPairs,       // rotary pairs (j, j + d/2) of each head next to each other, as llama.cpp's "llama" has them
};

// One tensor of the file: a public one, or the experts of a layer one after the other.
struct GgufPart {
  storage::GgufTensor tensor;
  std::vector<const model::PublicTensor*> from;  // empty: `values`
  std::vector<float> values;
  GgufOrder order = GgufOrder::kAsIs;
  int64_t heads = 1;  // of kPairs
};

// kUsage when llama.cpp has no such architecture, or would compute something else: windows, experts that are
// weighted in another way, other norms.
std::string gguf_architecture(const recipe::ModelConfig& config);

// All tensors, in the order of the public ones. type: of matrices; vectors, routers and learned positions
// stay fp32, and matrices whose rows do not divide into blocks of 32 are f16 instead of q8_0.
std::vector<GgufPart> gguf_parts(const recipe::ModelConfig& config,
                                 const std::vector<model::PublicTensor>& tensors, storage::GgufType type);

// positions: the context length that is said where the model has no max_positions.
storage::GgufFields gguf_model_fields(const recipe::ModelConfig& config, int64_t positions);

}  // namespace longhaul::checkpoint
