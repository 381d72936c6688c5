#include "model/mixers/dense_channel.h"

#include "kernels/activation/op.h"
#include "kernels/feature_maps/op.h"

namespace longhaul::model {
namespace {

bool has_gate(recipe::Channel kind) { return kind != recipe::Channel::kGelu; }

std::vector<std::string> up_names(recipe::Channel kind) {
  if (has_gate(kind)) return {"gate", "up"};
  return {"up"};
}

}  // namespace

DenseChannel::DenseChannel(const recipe::ModelConfig& config, const BlockPlace& place,
                           ParameterSet& parameters)
    : DenseChannel(place.name + ".channel", config.channel, config.bias, parameters) {}

DenseChannel::DenseChannel(const std::string& name, recipe::Channel kind, bool bias, ParameterSet& parameters)
    : ChannelMixer(name),
      kind_(kind),
      up_(parameters, name, has_gate(kind_) ? "gate_up" : "up", up_names(kind_), bias),
      down_(parameters, name, "down", {"down"}, bias) {}

Summand DenseChannel::summand(Context& context, BlockInput&, const layout::SequenceView&) {
  if (kind_ == recipe::Channel::kGlu) {
    return down_.summand_of(context, [this](const Tensor& rows) {
      const std::vector<Tensor> halves = up_.forward(rows).chunk(2, 1);
      return kernels::gated(halves[1], halves[0], kernels::FeatureMap::kNone);
    });
  }
  if (!up_.plain() || !down_.plain()) {  // the operator of both products knows the weights alone
    return down_.summand_of(context, [this](const Tensor& rows) {
      const Tensor made = up_.forward(rows);
      return kind_ == recipe::Channel::kSwiglu ? kernels::swiglu(made)
                                               : kernels::bias_gelu(made, Tensor(), {});
    });
  }
  const auto activation =
      kind_ == recipe::Channel::kSwiglu ? kernels::Activation::kSwiglu : kernels::Activation::kGelu;
  return down_.summand(
      context, [activation, up = up_.weights()](const Tensor& rows, const kernels::LinearWeights& down) {
        return kernels::feed_forward(rows, activation, up, down);
      });
}

}  // namespace longhaul::model
