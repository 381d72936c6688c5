#include "recipe/channels/dense.h"

#include "recipe/mixers.h"

namespace longhaul::recipe {

namespace {

bool has_gate(const ModelConfig& model) { return model.channel != Channel::kGelu; }
bool dense_biases(const ModelConfig& model) { return !has_gate(model); }

std::vector<MixerTensor> dense_tensors(const ModelConfig& model) {
  using enum MixerTensor::Cut;
  const MixerTensor up{.name = "channel.up",
                       .role = Role::kChannelUp,
                       .out = model.dense_width(),
                       .in = model.hidden,
                       .cut = kRows};
  const MixerTensor down{.name = "channel.down",
                         .role = Role::kChannelDown,
                         .out = model.hidden,
                         .in = model.dense_width(),
                         .cut = kColumns};
  if (!has_gate(model)) return {up, down};
  MixerTensor gate = up;
  gate.name = "channel.gate";
  gate.role = Role::kChannelGate;
  return {gate, below(up), down};
}

BlockMemory dense_memory(const ModelConfig& model, const BlockSizes& size) {
  const double a = size.channels(model.dense_width()), z = has_gate(model) ? 2 * a : a;
  // If the residual and the branch have the same factor, one tensor is the gradient of both.
  const ModelConfig::ResidualFactors factors = model.channel_factors();
  const bool two = factors.residual != factors.branch;
  // glu: of the halves, then of both.
  const double backward = (two ? 3 : 2) * size.hidden + (model.channel == Channel::kGlu ? 2 : 1) * z;
  return {.kept = z + a,
          .backward = backward,
          .cheap = a,
          .again = backward + a + size.hidden,  // also the normalised input
          .evaluation = a + 5 * size.hidden};
}

}  // namespace

constinit const ChannelMixerEntry kDenseMixer{
    .name = "dense", .biases = dense_biases, .tensors = dense_tensors, .memory = dense_memory};

}  // namespace longhaul::recipe
