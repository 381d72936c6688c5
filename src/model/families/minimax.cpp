#include "model/families/minimax.h"

#include <fmt/format.h>

#include "model/families/builder.h"

namespace longhaul::model {
namespace {

void add_mixer(PublicTensors& tensors, const recipe::ModelConfig& config, int64_t layer, const std::string& ours,
               const std::string& theirs) {
  if (config.mixer(layer) == recipe::Mixer::kLightning) {
    tensors.stacked(theirs + "qkv_proj.weight", {ours + "query.weight", ours + "key.weight", ours + "value.weight"}, config.head_dim);
    tensors.whole(theirs + "output_gate.weight", ours + "gate.weight");
    tensors.whole(theirs + "norm.weight", ours + "norm.weight");
    tensors.whole(theirs + "out_proj.weight", ours + "output.weight");
    return;
  }
  tensors.whole(theirs + "q_proj.weight", ours + "query.weight");
  tensors.whole(theirs + "k_proj.weight", ours + "key.weight");
  tensors.whole(theirs + "v_proj.weight", ours + "value.weight");
  tensors.whole(theirs + "o_proj.weight", ours + "output.weight");
}

}  // namespace

std::vector<PublicTensor> minimax_tensors(const recipe::ModelConfig& config) {
  PublicTensors tensors(config, "bf16");
  tensors.whole("model.embed_tokens.weight", "embedding.weight");
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string ours = fmt::format("layers.{}.", l), theirs = fmt::format("model.layers.{}.", l);
    tensors.whole(theirs + "input_layernorm.weight", ours + "mixer_norm.weight");
    add_mixer(tensors, config, l, ours + "mixer.", theirs + "self_attn.");
    tensors.whole(theirs + "post_attention_layernorm.weight", ours + "channel_norm.weight");
    tensors.whole(theirs + "block_sparse_moe.gate.weight", ours + "router.weight", "fp32");
    for (int64_t e = 0; e < config.experts; ++e) {
      const std::string from = fmt::format("{}experts.{}.", ours, e), to = fmt::format("{}block_sparse_moe.experts.{}.", theirs, e);
      tensors.whole(to + "w1.weight", from + "gate.weight");
      tensors.whole(to + "w3.weight", from + "up.weight");
      tensors.whole(to + "w2.weight", from + "down.weight");
    }
  }
  tensors.whole("model.norm.weight", "norm.weight");
  if (!config.tie_embeddings) tensors.whole("lm_head.weight", "head.weight");
  return tensors.take();
}

}  // namespace longhaul::model
