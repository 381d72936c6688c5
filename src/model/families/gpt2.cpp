#include "model/families/gpt2.h"

#include <fmt/format.h>

#include "model/families/builder.h"

namespace longhaul::model {

std::vector<PublicTensor> gpt2_tensors(const recipe::ModelConfig& config) {
  PublicTensors tensors(config, "fp32");
  const auto both = [&](const std::string& theirs, const std::string& ours) {
    tensors.whole(theirs + ".weight", ours + ".weight");
    tensors.whole(theirs + ".bias", ours + ".bias");
  };
  const auto linear = [&](const std::string& theirs, const std::string& ours) {
    tensors.transposed(theirs + ".weight", {ours + ".weight"});
    tensors.whole(theirs + ".bias", ours + ".bias");
  };
  tensors.whole("wte.weight", "embedding.weight");
  tensors.whole("wpe.weight", "position.weight");
  for (int64_t l = 0; l < config.layers; ++l) {
    const std::string ours = fmt::format("layers.{}.", l), theirs = fmt::format("h.{}.", l), mixer = ours + "mixer.";
    both(theirs + "ln_1", ours + "mixer_norm");
    tensors.transposed(theirs + "attn.c_attn.weight", {mixer + "query.weight", mixer + "key.weight", mixer + "value.weight"});
    tensors.stacked(theirs + "attn.c_attn.bias", {mixer + "query.bias", mixer + "key.bias", mixer + "value.bias"});
    linear(theirs + "attn.c_proj", mixer + "output");
    both(theirs + "ln_2", ours + "channel_norm");
    linear(theirs + "mlp.c_fc", ours + "channel.up");
    linear(theirs + "mlp.c_proj", ours + "channel.down");
  }
  both("ln_f", "norm");
  return tensors.take();
}

}  // namespace longhaul::model
