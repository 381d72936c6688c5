#include "model/families/llama.h"

#include <fmt/format.h>

#include <utility>

#include "model/families/builder.h"

namespace longhaul::model {

std::vector<PublicTensor> llama_tensors(const recipe::ModelConfig& config) {
  static constexpr std::pair<const char*, const char*> kOfLayer[] = {
      {"input_layernorm", "mixer_norm"},   {"self_attn.q_proj", "mixer.query"},  {"self_attn.k_proj", "mixer.key"},
      {"self_attn.v_proj", "mixer.value"}, {"self_attn.o_proj", "mixer.output"}, {"post_attention_layernorm", "channel_norm"},
      {"mlp.gate_proj", "channel.gate"},   {"mlp.up_proj", "channel.up"},        {"mlp.down_proj", "channel.down"},
  };
  PublicTensors tensors(config, "bf16");
  tensors.whole("model.embed_tokens.weight", "embedding.weight");
  for (int64_t l = 0; l < config.layers; ++l) {
    for (const auto& [theirs, ours] : kOfLayer) {
      tensors.whole(fmt::format("model.layers.{}.{}.weight", l, theirs), fmt::format("layers.{}.{}.weight", l, ours));
    }
  }
  tensors.whole("model.norm.weight", "norm.weight");
  if (!config.tie_embeddings) tensors.whole("lm_head.weight", "head.weight");
  return tensors.take();
}

}  // namespace longhaul::model
