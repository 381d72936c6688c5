#include "model/dense_channel.h"

#include <fmt/format.h>

#include "kernels/activation/op.h"

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

Tensor DenseChannel::forward(Context& context, const Tensor& hidden) {
  const Tensor active = kind_ == recipe::Channel::kSwiglu
                            ? kernels::swiglu(up_.forward(context, hidden))
                            : kernels::bias_gelu(up_.forward_without_bias(context, hidden), up_.bias(), up_.bias_gradient());
  return context.ops.sum_over_tensor_ranks(down_.forward(context, active));
}

}  // namespace longhaul::model
