// What leaves each layer (Context::after_layer): it is what a model of fewer layers gives, a loss on it
// reaches every weight before it, and recomputation changes no bit of that.
#include <gtest/gtest.h>

#include "model/decoder.h"
#include "support/models.h"

namespace longhaul::model::layer_outputs_test {
namespace {

using namespace longhaul::testing;
using recipe::Recompute;

constexpr int64_t kTokens = 19;
layout::SequenceLayout two_documents() { return layout::make_packed(std::vector<int64_t>{12, 7}); }
Tensor ids_of(const Decoder& decoder) {
  return id_tensor(random_ids(kTokens, decoder.config().vocabulary, 3));
}

std::vector<NamedConfig> compared_models() {
  recipe::ModelConfig post = hybrid_experts_post_norm();
  post.experts = 0;
  return {{"pre_norm", hybrid_pre_norm_tied()},
          {"scaled", scaled_pre_norm()},
          {"post_norm", post},
          {"parallel", parallel_blocks()}};
}

struct Seen {
  std::vector<Tensor> streams;
  Tensor hidden;
};

Seen look(Decoder& decoder) {
  const at::NoGradGuard no_gradient;
  LocalOps ops;
  Context context(ops, decoder.precision());
  Seen seen;
  context.after_layer = [&](int64_t layer, const Tensor& stream, const Tensor& normed) {
    EXPECT_EQ(layer, static_cast<int64_t>(seen.streams.size()));
    seen.streams.push_back(stream);
    return normed;
  };
  seen.hidden = decoder.hidden(context, ids_of(decoder), two_documents());
  return seen;
}

TEST(LayerOutputs, AreWhatAShorterModelGives) {
  for (NamedConfig named : compared_models()) {
    SCOPED_TRACE(named.name);
    named.config.mixers = {recipe::Mixer::kSoftmax};  // decays of others depend on the number of layers
    Decoder decoder = filled_decoder(named.config);
    const Seen seen = look(decoder);
    const auto layers = static_cast<size_t>(named.config.layers);
    ASSERT_EQ(seen.streams.size(), layers);
    if (named.config.wiring == recipe::Wiring::kPostNorm) {
      EXPECT_TRUE(seen.streams.back().equal(seen.hidden)) << "what a norm gave goes on";
      continue;
    }
    for (size_t l = 0; l < layers; ++l) {
      recipe::ModelConfig config = named.config;
      config.layers = static_cast<int64_t>(l) + 1;
      Decoder shorter(config, decoder.precision());
      const at::NoGradGuard no_gradient;
      for (const auto& parameter : shorter.parameters().all())
        parameter->value.copy_(decoder.parameters().holder_of(parameter->parts[0].spec.tensor.name)->value);
      LocalOps ops;
      Context context(ops, decoder.precision());
      const Tensor embedded = shorter.embed(context, ids_of(decoder), two_documents());
      EXPECT_LT(relative_error(seen.streams[l], shorter.layers(context, embedded, two_documents())), 1e-14)
          << "layer " << l;
    }
  }
}

// The sum of the model's hidden states and of each layer's outputs, all weighted by chance.
Tensor weights_of(size_t which) { return random_tensor({kTokens, 16}, 70 + which); }
double total(Decoder& decoder) {
  const Seen seen = look(decoder);
  Tensor sum = seen.hidden.mul(weights_of(99)).sum();
  for (size_t l = 0; l < seen.streams.size(); ++l)
    sum = sum + seen.streams[l].mul(weights_of(l)).sum() * (0.5 + static_cast<double>(l));
  return sum.item<double>();
}

std::vector<Tensor> gradients(Decoder& decoder, Recompute recompute) {
  decoder.set_recompute(recompute);
  decoder.parameters().zero_gradients();
  LocalOps ops;
  Context context(ops, decoder.precision());
  context.after_layer = [&](int64_t layer, const Tensor& stream, const Tensor& normed) {
    const Tensor loss = stream.mul(weights_of(static_cast<size_t>(layer))).sum();
    return context.join_weighted_loss(fmt::format("layer {}", layer), normed,
                                      loss.mul(0.5 + static_cast<double>(layer)), 1);
  };
  decoder.hidden(context, ids_of(decoder), two_documents()).mul(weights_of(99)).sum().backward();
  std::vector<Tensor> all;
  for (const auto& parameter : decoder.parameters().all()) all.push_back(parameter->grad.clone());
  return all;
}

TEST(LayerOutputs, ALossOnThemReachesTheWeights) {
  for (const NamedConfig& named : compared_models()) {
    SCOPED_TRACE(named.name);
    Decoder decoder = filled_decoder(named.config);
    const std::vector<Tensor> found = gradients(decoder, Recompute::kNone);
    const auto& parameters = decoder.parameters().all();
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (parameters[p]->name.starts_with("head")) continue;  // it comes behind them
      constexpr double kStep = 1e-6;
      const Tensor direction = random_tensor(parameters[p]->value.sizes(), 200 + p);
      const auto moved = [&](double by) {
        const at::NoGradGuard no_gradient;
        parameters[p]->value.add_(direction, by);
        const double sum = total(decoder);
        parameters[p]->value.sub_(direction, by);
        return sum;
      };
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      EXPECT_NEAR(found[p].mul(direction).sum().item<double>(), slope, 1e-5 * (1 + std::abs(slope)))
          << parameters[p]->name;
    }
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kTokens, Recompute::kFull}) {
      const std::vector<Tensor> again = gradients(decoder, recompute);
      for (size_t p = 0; p < found.size(); ++p) EXPECT_TRUE(again[p].equal(found[p])) << parameters[p]->name;
    }
  }
}

}  // namespace
}  // namespace longhaul::model::layer_outputs_test
