// The dense channel mixer: SwiGLU (arXiv 2002.05202), the same without silu (TransNormerLLM's SGLU), or up –
// tanh-GeLU – down as in GPT-2.
#pragma once

#include "model/linear.h"
#include "model/module.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class DenseChannel final : public ChannelMixer {
 public:
  DenseChannel(const recipe::ModelConfig& config, const BlockPlace& place, ParameterSet& parameters);
  // name.up, name.down, …
  DenseChannel(const std::string& name, recipe::Channel kind, bool bias, ParameterSet& parameters);
  Summand summand(Context& context, BlockInput& input, const layout::SequenceView& view) override;

 private:
  recipe::Channel kind_;
  Linear up_, down_;  // up: gate and up side by side where there is a gate
};

}  // namespace longhaul::model
