#include "model/families/families.h"

#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "layout/parameters.h"
#include "model/families/gpt2.h"
#include "model/families/llama.h"
#include "model/families/minimax.h"

namespace longhaul::model {
namespace {

using recipe::ModelConfig;

std::vector<PublicTensor> logical_tensors(const ModelConfig& config) {
  std::vector<PublicTensor> tensors;
  for (const auto& spec : layout::parameters(config)) {
    const auto whole = layout::Rectangle::whole(spec.tensor.global_shape);
    tensors.push_back({spec.tensor.name, spec.tensor.global_shape, "bf16", {{spec.tensor.name, whole, whole}}});
  }
  return tensors;
}

bool has_only(const ModelConfig& config, std::initializer_list<recipe::Mixer> known) {
  return std::ranges::all_of(config.mixers, [&](recipe::Mixer mixer) { return std::ranges::find(known, mixer) != known.end(); });
}

// Why public files of the family cannot hold this model; empty: they can. Recipes are checked before; configs built in code are not.
std::string defect(const ModelConfig& config) {
  const bool dense_softmax = config.experts == 0 && has_only(config, {recipe::Mixer::kSoftmax});
  if (config.family == "gpt2") {
    if (!dense_softmax || config.softmax.kv_heads != config.heads)
      return "GPT-2 is dense softmax attention with as many key heads as heads";
    if (config.channel != recipe::Channel::kGelu || config.norm != recipe::Norm::kLayer || !config.bias)
      return "GPT-2 has GeLU, layer norms and biases";
    if (config.position != recipe::Position::kLearned || !config.tie_embeddings) return "GPT-2 has learned positions and tied embeddings";
  } else if (config.channel != recipe::Channel::kSwiglu || config.norm != recipe::Norm::kRms || config.bias ||
             config.position == recipe::Position::kLearned) {
    return "the family has SwiGLU, RMS norms, no biases and no learned positions";
  } else if (config.family == "llama" && !dense_softmax) {
    return "Llama is dense softmax attention";
  } else if (config.family == "minimax" &&
             (config.experts == 0 || !has_only(config, {recipe::Mixer::kSoftmax, recipe::Mixer::kLightning}))) {
    return "MiniMax has lightning and softmax attention, and experts in every layer";
  }
  return "";
}

}  // namespace

std::vector<PublicTensor> public_tensors(const ModelConfig& config) {
  if (config.family == "longhaul") return logical_tensors(config);
  if (config.family != "gpt2" && config.family != "llama" && config.family != "minimax") {
    throw Error({.code = ExitCode::kUsage,
                 .what = "unknown model family",
                 .expected = "longhaul, gpt2, llama or minimax",
                 .found = config.family,
                 .where = "model.family"});
  }
  if (const std::string reason = defect(config); !reason.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the model cannot be written under its family's public names",
                 .expected = reason,
                 .found = "another configuration",
                 .where = "model.family = " + config.family,
                 .hint = "set model.family=longhaul"});
  }
  if (config.family == "gpt2") return gpt2_tensors(config);
  if (config.family == "llama") return llama_tensors(config);
  return minimax_tensors(config);
}

int64_t public_bytes(const std::vector<PublicTensor>& tensors) {
  int64_t bytes = 0;
  for (const PublicTensor& tensor : tensors) bytes += layout::volume(tensor.shape) * (tensor.dtype == "fp32" ? 4 : 2);
  return bytes;
}

}  // namespace longhaul::model
