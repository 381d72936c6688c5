// The decoder as a whole: gradients of every parameter, packed documents, micro-batches.
// ctest: timeout=120
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "model/state.h"
#include "support/models.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

struct Documents {
  std::vector<int64_t> ids, labels;
  layout::SequenceLayout layout;
};

Documents documents_of(const std::vector<int64_t>& lengths, int64_t vocabulary, uint64_t seed = 31) {
  Documents documents;
  documents.layout = layout::make_packed(lengths);
  documents.ids = random_ids(documents.layout.tokens(), vocabulary, seed);
  documents.labels = random_ids(documents.layout.tokens(), vocabulary, seed + 1);
  documents.labels[1] = layout::kIgnoreLabel;
  return documents;
}

// Documents first … first + count as a packing of their own.
Documents part_of(const Documents& all, int64_t first, int64_t count) {
  const auto& offsets = all.layout.document_offsets;
  const auto begin = offsets[static_cast<size_t>(first)], end = offsets[static_cast<size_t>(first + count)];
  std::vector<int64_t> lengths;
  for (int64_t d = first; d < first + count; ++d) lengths.push_back(all.layout.document(d).length);
  const auto cut = [&](const std::vector<int64_t>& v) { return std::vector<int64_t>(v.begin() + begin, v.begin() + end); };
  return {cut(all.ids), cut(all.labels), layout::make_packed(lengths)};
}

Tensor total_loss(Decoder& decoder, const Documents& documents) {
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor hidden = decoder.hidden(context, id_tensor(documents.ids), documents.layout);
  Tensor loss = decoder.loss(context, hidden, id_tensor(documents.labels));
  for (const Tensor& auxiliary : context.auxiliary_losses) loss = loss + auxiliary;
  return loss;
}

std::vector<Tensor> gradients_of(Decoder& decoder, const std::vector<Documents>& micro_batches) {
  decoder.parameters().zero_gradients();
  for (const Documents& documents : micro_batches) total_loss(decoder, documents).backward();
  std::vector<Tensor> gradients;
  for (const auto& parameter : decoder.parameters().all()) gradients.push_back(parameter->grad.clone());
  return gradients;
}

class DecoderKinds : public ::testing::TestWithParam<NamedConfig> {};

// Central differences along a random direction of every logical parameter; their own error is about 1e-9.
TEST_P(DecoderKinds, GradientOfEveryParameterIsTheLosssSlope) {
  Decoder decoder = filled_decoder(GetParam().config);
  const Documents documents = documents_of({7, 4}, GetParam().config.vocabulary);
  const std::vector<Tensor> gradients = gradients_of(decoder, {documents});
  const at::NoGradGuard guard;
  uint64_t seed = 500;
  size_t unused = 0, logical = 0;
  for (size_t p = 0; p < gradients.size(); ++p) {
    Parameter& parameter = *decoder.parameters().all()[p];
    for (size_t i = 0; i < parameter.parts.size(); ++i) {
      ++logical;
      Tensor value = parameter.part_of(parameter.value.detach(), i);
      const Tensor direction = random_tensor(value.sizes(), ++seed);
      const double analytic = parameter.part_of(gradients[p], i).mul(direction).sum().item<double>();
      constexpr double kStep = 1e-6;
      value.add_(direction, kStep);
      const double above = total_loss(decoder, documents).item<double>();
      value.add_(direction, -2 * kStep);
      const double below = total_loss(decoder, documents).item<double>();
      value.add_(direction, kStep);
      const double numeric = (above - below) / (2 * kStep);
      EXPECT_NEAR(analytic, numeric, 1e-6 * std::max(1.0, std::abs(numeric))) << parameter.parts[i].spec.tensor.name;
      unused += analytic == 0;
    }
  }
  EXPECT_EQ(logical, layout::parameters(GetParam().config).size());
  EXPECT_LE(unused, logical / 4) << "most parameters must matter, or the check proves nothing";
}

TEST_P(DecoderKinds, PackedDocumentsAreTheSameAsOneAtATime) {
  recipe::ModelConfig config = GetParam().config;
  config.auxiliary_loss = 0;  // the only term that looks at all tokens together
  Decoder decoder = filled_decoder(config);
  const Documents all = documents_of({5, 1, 9, 4}, config.vocabulary);
  std::vector<Documents> single;
  for (int64_t d = 0; d < all.layout.documents(); ++d) single.push_back(part_of(all, d, 1));

  const auto each = [&](const Documents& documents) {
    LocalOps ops;
    Context context(ops, decoder.precision());
    const at::NoGradGuard guard;
    return decoder.loss_each(decoder.hidden(context, id_tensor(documents.ids), documents.layout), id_tensor(documents.labels));
  };
  std::vector<Tensor> losses;
  for (const Documents& documents : single) losses.push_back(each(documents));
  EXPECT_LT(relative_error(each(all), at::cat(losses)), 1e-10);
  EXPECT_EQ(each(all)[1].item<double>(), 0) << "no label, no loss";

  const auto packed = gradients_of(decoder, {all}), one_at_a_time = gradients_of(decoder, single);
  for (size_t p = 0; p < packed.size(); ++p) {
    EXPECT_LT(relative_error(packed[p], one_at_a_time[p]), 1e-10) << decoder.parameters().all()[p]->name;
  }
}

TEST_P(DecoderKinds, MicroBatchesAddUpToTheBatch) {
  recipe::ModelConfig config = GetParam().config;
  config.auxiliary_loss = 0;
  Decoder decoder = filled_decoder(config);
  const Documents all = documents_of({6, 3, 8, 2}, config.vocabulary);
  const auto whole = gradients_of(decoder, {all});
  const auto split = gradients_of(decoder, {part_of(all, 0, 2), part_of(all, 2, 2)});
  for (size_t p = 0; p < whole.size(); ++p) {
    EXPECT_LT(relative_error(split[p], whole[p]), 1e-12) << decoder.parameters().all()[p]->name;
  }
}

// bf16 has 8 bits: a loss of about ln 29 within a few percent, and finite gradients in fp32.
TEST_P(DecoderKinds, Bf16FollowsFp64) {
  const Documents documents = documents_of({7, 4}, GetParam().config.vocabulary);
  Decoder exact = filled_decoder(GetParam().config), rounded = filled_decoder(GetParam().config, "bf16");
  const double expected = total_loss(exact, documents).item<double>();
  for (const Tensor& gradient : gradients_of(rounded, {documents})) {
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }
  EXPECT_NEAR(total_loss(rounded, documents).item<double>(), expected, 0.05 * expected);
}

TEST_P(DecoderKinds, PostponedWeightGradientsAreTheSameLater) {
  Decoder decoder = filled_decoder(GetParam().config);
  const Documents documents = documents_of({7, 4}, GetParam().config.vocabulary);
  const auto at_once = gradients_of(decoder, {documents});
  decoder.parameters().zero_gradients();
  std::vector<std::function<void()>> queue;
  LocalOps ops;
  Context context(ops, decoder.precision());
  context.postponed_weight_gradients = &queue;
  Tensor loss = decoder.loss(context, decoder.hidden(context, id_tensor(documents.ids), documents.layout), id_tensor(documents.labels));
  for (const Tensor& auxiliary : context.auxiliary_losses) loss = loss + auxiliary;
  loss.backward();
  ASSERT_GE(queue.size(), static_cast<size_t>(4 * GetParam().config.layers));
  for (const auto& product : queue) product();
  for (size_t p = 0; p < at_once.size(); ++p) {
    EXPECT_TRUE(decoder.parameters().all()[p]->grad.equal(at_once[p])) << decoder.parameters().all()[p]->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Small, DecoderKinds, ::testing::ValuesIn(small_models()), [](const auto& named) { return named.param.name; });

TEST(Decoder, LayerNormWithoutBias) {
  recipe::ModelConfig config = llama_like();
  config.norm = recipe::Norm::kLayer;
  Decoder decoder = filled_decoder(config);
  for (const Tensor& gradient : gradients_of(decoder, {documents_of({7, 4}, config.vocabulary)})) {
    EXPECT_GT(gradient.abs().max().item<double>(), 0);
  }
}

TEST(Decoder, RefusesIdsAndPositionsBeyondItsTables) {
  const auto code_of = [](Decoder& decoder, const Documents& documents) {
    try {
      total_loss(decoder, documents);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  Decoder decoder = filled_decoder(gpt2_like());
  EXPECT_EQ(code_of(decoder, documents_of({24}, 29)), ExitCode::kDone);
  EXPECT_EQ(code_of(decoder, documents_of({25}, 29)), ExitCode::kUsage);
  Documents foreign = documents_of({5}, 29);
  foreign.ids[3] = 29;
  EXPECT_EQ(code_of(decoder, foreign), ExitCode::kData);
}

// Known values of the numeric guard's hook: every block reports once, in order.
TEST(Decoder, InspectSeesEveryBlock) {
  Decoder decoder = filled_decoder(hybrid_pre_norm_tied());
  LocalOps ops;
  Context context(ops, decoder.precision());
  std::vector<std::string> seen;
  context.inspect = [&](const std::string& name, const Tensor& x) {
    seen.push_back(name);
    EXPECT_TRUE(x.isfinite().all().item<bool>());
  };
  const Documents documents = documents_of({4}, 29);
  decoder.loss(context, decoder.hidden(context, id_tensor(documents.ids), documents.layout), id_tensor(documents.labels));
  EXPECT_EQ(seen, (std::vector<std::string>{"embedding", "layers.0.mixer", "layers.0.channel", "layers.1.mixer", "layers.1.channel",
                                            "layers.2.mixer", "layers.2.channel", "loss"}));
}

}  // namespace
}  // namespace longhaul::model
