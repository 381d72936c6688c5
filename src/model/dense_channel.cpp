#include "model/dense_channel.h"

#include <fmt/format.h>

namespace longhaul::model {
namespace {

std::vector<std::string> up_names(recipe::Channel kind) {
  if (kind == recipe::Channel::kSwiglu) return {"gate", "up"};
  return {"up"};
}

}  // namespace

DenseChannel::DenseChannel(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters)
    : ChannelMixer(fmt::format("layers.{}.channel", layer)),
      kind_(config.channel),
      up_(parameters, name(), kind_ == recipe::Channel::kSwiglu ? "gate_up" : "up", up_names(kind_), config.bias),
      down_(parameters, name(), "down", {"down"}, config.bias) {}

Tensor DenseChannel::forward(Context& context, const Tensor& hidden, const layout::SequenceView& view) {
  const auto activation = kind_ == recipe::Channel::kSwiglu ? kernels::Activation::kSwiglu : kernels::Activation::kGelu;
  const Tensor x = context.ops.gather_tokens(hidden, view);
  return down_.finish_sum(context, kernels::feed_forward(x, activation, up_.weights(), down_.summed_weights(context)), view);
}

}  // namespace longhaul::model
