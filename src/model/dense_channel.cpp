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

Summand DenseChannel::summand(Context& context, BlockInput&, const layout::SequenceView&) {
  const auto activation = kind_ == recipe::Channel::kSwiglu ? kernels::Activation::kSwiglu : kernels::Activation::kGelu;
  return down_.summand(context, [activation, up = up_.weights()](const Tensor& rows, const kernels::LinearWeights& down) {
    return kernels::feed_forward(rows, activation, up, down);
  });
}

}  // namespace longhaul::model
