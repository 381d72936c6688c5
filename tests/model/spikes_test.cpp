// Models whose layers' matrices read counts of spikes: which matrices those are, whole numbers beside the
// simulated products, training, and that a token is what it is whatever stands beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/spikes/counts.h"
#include "model/spiking_product.h"
#include "model/state.h"
#include "support/models.h"
#include "support/refused.h"

namespace longhaul::model::spikes_test {
namespace {

using namespace longhaul::testing;
using recipe::SpikeCoding;
using recipe::SpikeWeights;

recipe::ModelConfig with_spikes(recipe::ModelConfig config, SpikeWeights weights = SpikeWeights::kWide) {
  config.spikes = {.coding = SpikeCoding::kSignedBits, .k = 3, .weights = weights};
  return config;
}

std::vector<NamedConfig> spiking_models() {
  std::vector<NamedConfig> all = {
      {"llama", llama_like()},   {"gpt2", gpt2_like()},      {"experts", hybrid_experts_post_norm()},
      {"hgrn2", hgrn2_hybrid()}, {"deltas", delta_hybrid()}, {"parallel", parallel_blocks()}};
  for (NamedConfig& each : all) each.config = with_spikes(each.config);
  return all;
}

void copy_weights(Decoder& from, Decoder& to) {
  const auto &wide = from.parameters().all(), &other = to.parameters().all();
  for (size_t p = 0; p < wide.size(); ++p) {
    const Tensor value = wide[p]->value.detach();
    if (!other[p]->narrow()) other[p]->value.copy_(value);
    for (size_t i = 0; other[p]->narrow() && i < other[p]->parts.size(); ++i)
      other[p]->write_narrow(i, wide[p]->part_of(value, i));
    other[p]->written();
  }
}

Tensor logits_of(Decoder& decoder, const layout::SequenceLayout& layout,
                 const std::vector<int64_t>& numbers) {
  const at::NoGradGuard guard;
  LocalOps ops;
  Context context(ops, decoder.precision());
  context.training = false;
  return decoder.logits(decoder.hidden(context, id_tensor(numbers), layout));
}

class Spikes : public ::testing::TestWithParam<NamedConfig> {};

TEST_P(Spikes, AreReadByTheMatricesOfTheLayersAlone) {
  Decoder decoder = filled_decoder(GetParam().config, "fp32");
  const auto statistics = gather_statistics(*decoder.spiking());
  logits_of(decoder, layout::make_single(9), random_ids(9, decoder.config().vocabulary, 3));
  std::vector<std::string> read;
  for (const auto& [name, sums] : statistics->of_matrices()) {
    read.push_back(name);
    EXPECT_TRUE(name.starts_with("layers.")) << name;
    EXPECT_EQ(name.find("router"), std::string::npos) << name;
    EXPECT_GT(sums.mean_spikes(), 0.3);
  }
  const Decoder narrow(with_spikes(GetParam().config, SpikeWeights::kInt8), Precision::named("fp32"),
                       at::kCPU, Use::kIntegers);
  std::vector<std::string> kept;
  for (const auto& parameter : narrow.parameters().all()) {
    if (parameter->narrow()) kept.push_back(parameter->name);
  }
  EXPECT_THAT(read, ::testing::UnorderedElementsAreArray(kept)) << "those that whole numbers are kept for";
  EXPECT_GE(std::ssize(kept), 3 * GetParam().config.layers);
}

// Fixed weights and tokens: no count of theirs lies so near a half that fp32's rounding would move it.
TEST_P(Spikes, InWholeNumbersAreTheSimulatedOnes) {
  const recipe::ModelConfig config = with_spikes(GetParam().config, SpikeWeights::kInt8);
  Decoder wide = filled_decoder(config, "fp32");
  Decoder narrow(config, Precision::named("fp32"), at::kCPU, Use::kIntegers);
  copy_weights(wide, narrow);
  const auto ids = random_ids(23, config.vocabulary, 5);
  const auto layout = layout::make_packed(std::vector<int64_t>{11, 12});
  const Tensor simulated = logits_of(wide, layout, ids), found = logits_of(narrow, layout, ids);
  EXPECT_LT(relative_error(found, simulated), 1e-4);
  recipe::ModelConfig numbers = config;
  numbers.spikes = {};
  Decoder plain = filled_decoder(numbers, "fp32");
  EXPECT_GT(relative_error(found, logits_of(plain, layout, ids)), 1e-3) << "counts are rounded";
}

TEST_P(Spikes, ATokenDoesNotDependOnItsNeighbours) {
  Decoder decoder = filled_decoder(GetParam().config, "fp32");
  const auto ids = random_ids(20, decoder.config().vocabulary, 5);
  const Tensor both = logits_of(decoder, layout::make_packed(std::vector<int64_t>{13, 7}), ids);
  const Tensor second =
      logits_of(decoder, layout::make_single(7), std::vector<int64_t>(ids.begin() + 13, ids.end()));
  EXPECT_LT(relative_error(both.narrow(0, 13, 7), second), 1e-4);
}

double spiking_loss(Decoder& decoder, recipe::Recompute recompute = recipe::Recompute::kNone) {
  decoder.set_recompute(recompute);
  decoder.parameters().zero_gradients();
  LocalOps ops;
  Context context(ops, decoder.precision());
  const std::vector<int64_t> numbers = random_ids(19, decoder.config().vocabulary, 3);
  const auto layout = layout::make_packed(std::vector<int64_t>{11, 8});
  const Tensor labels = id_tensor(layout::shifted_labels(layout, numbers));
  const Tensor loss = decoder.loss(context, decoder.hidden(context, id_tensor(numbers), layout), labels);
  loss.backward();
  return loss.item<double>();
}

// Every matrix has a gradient, near that of the model that reads numbers when counts are fine, except where
// delta rules with random weights make much of a small difference.
TEST_P(Spikes, TrainStraightThrough) {
  for (const SpikeWeights weights : {SpikeWeights::kWide, SpikeWeights::kInt8}) {
    recipe::ModelConfig fine = with_spikes(GetParam().config, weights), numbers = GetParam().config;
    fine.spikes.k = 64;
    numbers.spikes = {};
    Decoder spiking = filled_decoder(fine, "fp32"), plain = filled_decoder(numbers, "fp32");
    const double loss = spiking_loss(spiking), of_plain = spiking_loss(plain);
    EXPECT_NE(loss, of_plain);
    EXPECT_NEAR(loss, of_plain, 0.03 * of_plain);
    for (size_t p = 0; p < plain.parameters().all().size(); ++p) {
      const auto &found = spiking.parameters().all()[p], &expected = plain.parameters().all()[p];
      if (found->name.find("router") != std::string::npos) continue;
      const Tensor a = found->grad.flatten(), b = expected->grad.flatten();
      if (b.abs().max().item<double>() < 1e-7) continue;
      EXPECT_TRUE(a.isfinite().all().item<bool>()) << found->name;
      EXPECT_GT(a.abs().max().item<double>(), 0) << found->name;
      if (GetParam().name == "deltas") continue;
      EXPECT_GT(at::cosine_similarity(a, b, 0).item<double>(), 0.9) << found->name;
    }
  }
}

TEST_P(Spikes, RecomputedLayersGiveTheSameBits) {
  Decoder decoder = filled_decoder(with_spikes(GetParam().config, SpikeWeights::kInt8), "fp32");
  const double loss = spiking_loss(decoder);
  std::vector<Tensor> gradients;
  for (const auto& parameter : decoder.parameters().all()) gradients.push_back(parameter->grad.clone());
  for (const recipe::Recompute recompute : {recipe::Recompute::kSelective, recipe::Recompute::kFull}) {
    EXPECT_EQ(spiking_loss(decoder, recompute), loss);
    for (size_t p = 0; p < gradients.size(); ++p)
      EXPECT_TRUE(decoder.parameters().all()[p]->grad.equal(gradients[p]))
          << decoder.parameters().all()[p]->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Spikes, ::testing::ValuesIn(spiking_models()),
                         [](const ::testing::TestParamInfo<NamedConfig>& each) { return each.param.name; });

TEST(SpikesAlone, WholeNumbersTakeAByteAWeightAndDoNotTrain) {
  Decoder decoder(with_spikes(llama_like(), SpikeWeights::kInt8), Precision::named("fp32"), at::kCPU,
                  Use::kIntegers);
  decoder.parameters().initialise(9);
  for (const auto& parameter : decoder.parameters().all()) {
    EXPECT_FALSE(parameter->trainable());
    if (parameter->narrow()) {
      EXPECT_FALSE(parameter->value.defined());
    }
  }
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor hidden = random_tensor({6, decoder.config().hidden}, 1, at::kFloat).requires_grad_(true);
  EXPECT_THAT(refused([&] { decoder.layers(context, hidden, layout::make_single(6)); }),
              ::testing::HasSubstr("do not train"));
}

// What decoding gives step by step is what the whole text gives.
TEST(SpikesAlone, DecodeAsTheyRead) {
  Decoder decoder(with_spikes(llama_like(), SpikeWeights::kInt8), Precision::named("fp32"), at::kCPU,
                  Use::kIntegers);
  Decoder wide = filled_decoder(with_spikes(llama_like(), SpikeWeights::kInt8), "fp32");
  copy_weights(wide, decoder);
  const auto ids = random_ids(12, decoder.config().vocabulary, 5);
  const Tensor whole = logits_of(decoder, layout::make_single(12), ids);
  const at::NoGradGuard guard;
  LocalOps ops;
  Context context(ops, decoder.precision());
  context.training = false;
  DecoderState state = decoder.make_state();
  const std::vector<int64_t> rows = {state.add()};
  for (int64_t t = 0; t < 12; ++t) {
    const auto one = layout::make_packed(std::vector<int64_t>{1}, std::vector<int64_t>{t});
    const DecoderRows of{state, rows};
    const Tensor found =
        decoder.logits(decoder.hidden(context, id_tensor({ids[static_cast<size_t>(t)]}), one, &of));
    EXPECT_LT(relative_error(found[0], whole[t]), 1e-4) << t;
  }
}

}  // namespace
}  // namespace longhaul::model::spikes_test
