// open_model: a trained model from its checkpoint alone, for inference: the recipe comes from the manifest, weights from the tensors; it
// has no gradients. With experts in eight bits (kernels/matmul/int8_weight.h) the weights of routed experts are quantised tensor by tensor as they are
// read, from the numbers that are stored; everything else, shared experts too, is as without.
#pragma once

#include <filesystem>
#include <memory>

#include "model/decoder.h"
#include "recipe/load.h"

namespace longhaul::checkpoint {

struct OpenModel {
  recipe::LoadedRecipe recipe;
  std::filesystem::path folder;     // of the checkpoint
  std::filesystem::path tokenizer;  // run folder's tokenizer.json; may be missing when the checkpoint was moved
  std::string tokenizer_sha256;     // of the one that it was trained with; empty when the checkpoint does not say
  int64_t step = 0;
  std::unique_ptr<model::Decoder> decoder;
};

// path: as storage::resolve takes it; of several checkpoints the newest valid one. dtype: "bf16", "fp32", "fp64"; empty: the
// recipe's. experts: "int8", or empty for the dtype; the log says what int8 holds in bytes. Every byte of its weights is verified first; the other files need not be there. kCheckpoint errors; kUsage:
// int8 of a model without experts.
OpenModel open_model(const std::filesystem::path& path, const std::string& dtype = "", at::Device device = at::kCPU,
                     const std::string& experts = "");

// What supposes a model of the next token (writing on, judging answers) refuses others with it: kUsage.
void require_next_token(const OpenModel& model, const std::string& what);

}  // namespace longhaul::checkpoint
