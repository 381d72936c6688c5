#include "model/decoder.h"

#include <fmt/format.h>

#include "base/error.h"
#include "kernels/embedding/op.h"
#include "kernels/linear/op.h"
#include "kernels/linear_cross_entropy/op.h"
#include "kernels/norm/op.h"
#include "model/mixers.h"
#include "model/norm.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

struct Decoder::Layer {
  Norm mixer_norm;
  std::unique_ptr<SequenceMixer> mixer;
  Norm channel_norm;
  std::unique_ptr<ChannelMixer> channel;
};

// The residual stream between two norms: a branch waits beside it until the norm that reads it joins them in the same pass.
struct Decoder::Stream {
  Tensor residual_td, branch_td;        // no branch: nothing to join
  const std::string* writer = nullptr;  // block that wrote the branch
};

Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

Decoder::Decoder(const recipe::ModelConfig& config, Precision precision, at::Device device, Use use)
    : config_(config), precision_(precision), parameters_(layout::parameters(config), precision, device, use) {
  embedding_ = &parameters_.add_stacked("embedding.weight", {"embedding.weight"});
  if (config.position == recipe::Position::kLearned) position_ = &parameters_.add_stacked("position.weight", {"position.weight"});
  for (int64_t l = 0; l < config.layers; ++l) {
    Norm mixer_norm(parameters_, fmt::format("layers.{}.mixer_norm", l), config.norm, config.norm_eps, config.bias);
    auto mixer = make_mixer(config, l, parameters_);
    Norm channel_norm(parameters_, fmt::format("layers.{}.channel_norm", l), config.norm, config.norm_eps, config.bias);
    layers_.push_back({mixer_norm, std::move(mixer), channel_norm, make_channel_mixer(config, l, parameters_)});
  }
  norm_ = std::make_unique<Norm>(parameters_, "norm", config.norm, config.norm_eps, config.bias);
  head_ = config.tie_embeddings ? embedding_ : &parameters_.add_stacked("head.weight", {"head.weight"});
  parameters_.expect_all_taken();
}

Tensor Decoder::embed(const Tensor& ids, const layout::SequenceLayout& layout) {
  const kernels::EmbeddingTable table{embedding_->value, embedding_->grad};
  if (position_ == nullptr) return kernels::embedding(ids, table);
  return kernels::embedding(ids, table, to_tensor(layout.positions_of_axis(0), device()), {position_->value, position_->grad});
}

Tensor Decoder::read(Context& context, const Norm& norm, Stream& stream) const {
  const bool post = config_.wiring == recipe::Wiring::kPostNorm;
  if (!stream.branch_td.defined()) {
    const Tensor normed = norm.forward(stream.residual_td);
    if (post) stream.residual_td = normed;
    return normed;
  }
  const auto [joined, normed] =
      norm.forward_joined(stream.residual_td, stream.branch_td, post ? config_.residual_alpha() : 1, post ? config_.beta : 1);
  if (context.inspect) context.inspect(*stream.writer, joined);
  stream = {.residual_td = post ? normed : joined};
  return normed;
}

void Decoder::run_layer(Context& context, Layer& layer, Stream& stream, const layout::SequenceLayout& layout, MixerState* state) const {
  const Tensor h = read(context, layer.mixer_norm, stream);
  stream.branch_td = layer.mixer->forward(context, h, layout, state);
  stream.writer = &layer.mixer->name();
  const Tensor g = read(context, layer.channel_norm, stream);
  stream.branch_td = layer.channel->forward(context, g, layout);
  stream.writer = &layer.channel->name();
}

Tensor Decoder::hidden(Context& context, const Tensor& ids, const layout::SequenceLayout& layout, DecoderState* state) {
  LONGHAUL_ASSERT(layout.tokens() == ids.size(0), "{} tokens, layout of {}", ids.size(0), layout.tokens());
  if (state != nullptr) {
    LONGHAUL_ASSERT(layout.documents() == 1, "decoding takes one sequence, not {}", layout.documents());
    state->layers.resize(layers_.size());
    state->tokens += ids.size(0);
  }
  Stream stream{.residual_td = embed(ids, layout)};
  if (context.inspect) context.inspect("embedding", stream.residual_td);
  for (size_t l = 0; l < layers_.size(); ++l) {
    run_layer(context, layers_[l], stream, layout, state != nullptr ? &state->layers[l] : nullptr);
  }
  return read(context, *norm_, stream);
}

Tensor Decoder::logits(const Tensor& hidden) const { return kernels::linear_wide(hidden, head_->value, head_->kept()); }

Tensor Decoder::loss(Context& context, const Tensor& hidden, const Tensor& labels) {
  const Tensor loss = kernels::linear_cross_entropy_sum(hidden, head_->value, labels, head_->grad, {}, head_->kept());
  if (context.inspect) context.inspect("loss", loss);
  return loss;
}

Tensor Decoder::loss_each(const Tensor& hidden, const Tensor& labels) const {
  return kernels::linear_cross_entropy_each(hidden, head_->value, labels, {}, head_->kept());
}

}  // namespace longhaul::model
