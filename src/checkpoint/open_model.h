// open_model: opens a trained model for inference from its checkpoint alone. The recipe comes from the
// manifest and the weights from the tensors; the model has no gradients. Weights in eight bits are quantised
// from the stored numbers, tensor by tensor, as they are read, and nowhere are all of them wide:
//
//   experts   those of routed experts, with a scale for each output (kernels/matmul/int8_weight.h);
//             everything else, shared experts included, is unchanged
//   weights   all linear layers, experts and head among them, and the embedding where it is the head, with a
//             scale for every 128 inputs (kernels/spikes/group_weight.h); routers, norms, biases and what is
//             no matrix product stay as they are, and so do the matrices that latent attention joins
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "comm/communicator.h"
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

// The form in which a model is opened, beside its dtype and its device.
struct ModelForm {
  std::string experts = "", weights = "";  // "int8", or empty for the dtype
  SpikeRequest spikes{};
  // For several ranks that hold the model together and open it in one collective call: `place` says whose
  // share this rank opens, once the model is known, and `ranks` are all of them. Their weights are wide.
  std::function<layout::MeshRank(const recipe::ModelConfig&)> place{};
  comm::Communicator* ranks = nullptr;
};

// path: as storage::resolve takes it; if it has several checkpoints, the newest valid one is opened. dtype:
// "bf16", "fp32", "fp64"; empty: the recipe's. The log says how many bytes weights in eight bits take.
// Spikes: whether the matrices of the layers multiply counts of spikes with weights in eight bits, in whole
// numbers, whatever the recipe's [spikes] say. Every byte of the weights is verified first; the other files
// need not exist. Throws kCheckpoint errors, and kUsage for eight bits and spikes that the model cannot have,
// or not in this dtype, on this device or on several ranks.
OpenModel open_model(const std::filesystem::path& path, const std::string& dtype = "",
                     at::Device device = at::kCPU, const ModelForm& form = {});

// The folder of the checkpoint that open_model(path) would open now. Only sizes of files are looked at.
std::filesystem::path folder_to_open(const std::filesystem::path& path);

// Throws kUsage unless the model predicts the next token. Operations that need such a model (writing text
// on, judging answers) call it; `what` names the operation.
void require_next_token(const OpenModel& model, const std::string& what);

}  // namespace longhaul::checkpoint
