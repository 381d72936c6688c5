// open_model: opens a trained model for inference from its checkpoint alone. The recipe comes from the
// manifest and the weights from the tensors; the model has no gradients. With eight-bit experts
// (kernels/matmul/int8_weight.h) the weights of routed experts are quantised from the stored numbers,
// tensor by tensor, as they are read; everything else, shared experts included, is unchanged.
#pragma once

#include <filesystem>
#include <memory>

#include "model/decoder.h"
#include "recipe/load.h"

namespace longhaul::checkpoint {

struct OpenModel {
  recipe::LoadedRecipe recipe;
  std::filesystem::path folder;  // the checkpoint's folder
  // run folder's tokenizer.json; may be missing when the checkpoint was moved
  std::filesystem::path tokenizer;
  // The hash of the tokenizer that it was trained with; empty when the checkpoint does not say.
  std::string tokenizer_sha256;
  int64_t step = 0;
  std::unique_ptr<model::Decoder> decoder;
};

struct SpikeRequest {
  bool wanted = false;
  double k = 0;             // 0: the recipe's, which is 3 where it has no spikes
  std::string coding = "";  // empty: the recipe's, or signed_bits
};

// path: as storage::resolve takes it; if it has several checkpoints, the newest valid one is opened. dtype:
// "bf16", "fp32", "fp64"; empty: the recipe's. experts: "int8", or empty for the dtype; the log says how
// many bytes the int8 weights take. spikes: whether the matrices of the layers multiply counts of spikes with
// weights in eight bits, in whole numbers, whatever the recipe's [spikes] say. Every byte of the weights is
// verified first; the other files need not exist. Throws kCheckpoint errors, and kUsage for int8 when the
// model has no experts, and for spikes that it cannot have.
OpenModel open_model(const std::filesystem::path& path, const std::string& dtype = "",
                     at::Device device = at::kCPU, const std::string& experts = "",
                     const SpikeRequest& spikes = {});

// The folder of the checkpoint that open_model(path) would open now. Only sizes of files are looked at.
std::filesystem::path folder_to_open(const std::filesystem::path& path);

// Throws kUsage unless the model predicts the next token. Operations that need such a model (writing text
// on, judging answers) call it; `what` names the operation.
void require_next_token(const OpenModel& model, const std::string& what);

}  // namespace longhaul::checkpoint
