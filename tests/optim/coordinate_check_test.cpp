// The coordinate check of muP (arXiv 2203.03466, appendix D.1): mean |x| of every block's output and of the
// logits after a few steps, over widths. With muP they stay of one size; without it they grow.
// ctest: timeout=200
#include <gtest/gtest.h>

#include <map>

#include "model/decoder.h"
#include "optim/optimizer.h"
#include "recipe/mixers.h"
#include "support/models.h"

namespace longhaul::optim {
namespace {

using namespace longhaul::testing;

constexpr int64_t kBase = 32, kSteps = 4;

recipe::ModelConfig of_width(int64_t hidden, bool mup) {
  recipe::ModelConfig config;
  config.layers = 3;
  config.mixers = {recipe::Mixer::kSoftmax, recipe::Mixer::kMixture, recipe::Mixer::kGatedDeltaNet};
  config.mixture.norm = false;
  config.hidden = hidden;
  config.vocabulary = 61;
  config.head_dim = 16;
  config.heads = hidden / 16;
  config.softmax.kv_heads = hidden / 32;
  config.softmax.rotary_dim = 16;
  config.intermediate = 2 * hidden;
  config.initialisation = recipe::Initialisation::kNormal;
  config.initial_std = 0.15;
  config.mup_base_hidden = mup ? kBase : 0;
  return config;
}

// Of each block, and "logits": mean |x|, after some steps.
std::map<std::string, double> sizes_of(const recipe::ModelConfig& config, const recipe::OptimOptions& optim) {
  constexpr int64_t kTokens = 64;
  model::Decoder decoder(config, Precision::named("fp32"));
  decoder.parameters().initialise(11);
  const auto optimizer = make_optimizer(optim, decoder.parameters(), decoder.precision());
  const auto layout = layout::make_batch(2, kTokens / 2);
  const std::vector<int64_t> ids = random_ids(kTokens, config.vocabulary, 3);
  const Tensor labels = id_tensor(layout::shifted_labels(layout, ids));
  model::LocalOps ops;
  for (int64_t step = 0; step < kSteps; ++step) {
    model::Context context(ops, decoder.precision());
    decoder.loss(context, decoder.hidden(context, id_tensor(ids), layout), labels).backward();
    optimizer->step({.lr = optim.lr, .gradient_scale = 1.0 / kTokens});
  }
  const at::NoGradGuard no_gradient;
  std::map<std::string, double> sizes;
  model::Context context(ops, decoder.precision());
  context.inspect = [&](const std::string& block, const Tensor& x) {
    sizes[block] = x.abs().mean().item<double>();
  };
  sizes["logits"] =
      decoder.logits(decoder.hidden(context, id_tensor(ids), layout)).abs().mean().item<double>();
  return sizes;
}

// How many times the size at the smallest width the size at the largest is; of the block where that is most.
double growth_of(const recipe::OptimOptions& optim, bool mup) {
  const auto narrow = sizes_of(of_width(kBase, mup), optim), wide = sizes_of(of_width(8 * kBase, mup), optim);
  double most = 0;
  for (const auto& [block, size] : narrow) most = std::max(most, wide.at(block) / size);
  return most;
}

class CoordinateCheck : public ::testing::TestWithParam<recipe::OptimOptions> {};

TEST_P(CoordinateCheck, SizesStayWithMupAndGrowWithout) {
  const double with = growth_of(GetParam(), true), without = growth_of(GetParam(), false);
  RecordProperty("with", std::to_string(with));
  RecordProperty("without", std::to_string(without));
  EXPECT_LT(with, 1.6);
  EXPECT_GT(without, 2.5);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, CoordinateCheck,
    ::testing::Values(recipe::OptimOptions{.name = "adamw", .lr = 0.01, .weight_decay = 0},
                      recipe::OptimOptions{.name = "lion", .lr = 0.004, .weight_decay = 0},
                      recipe::OptimOptions{.name = "came", .lr = 0.01, .weight_decay = 0},
                      recipe::OptimOptions{.name = "muon", .lr = 0.02, .weight_decay = 0},
                      recipe::OptimOptions{.name = "sgd", .lr = 0.3, .weight_decay = 0}),
    [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace longhaul::optim
