// The decoder as a whole: gradients of every parameter, packed documents, micro-batches.
// ctest: timeout=120
#include "model/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "kernels/linear_cross_entropy/log_probabilities.h"
#include "model/arena.h"
#include "model/state.h"
#include "support/variant_models.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

struct Documents {
  std::vector<int64_t> ids, labels;
  layout::SequenceLayout layout;
};

// row_offsets: of the batch; none: one row.
Documents documents_of(const std::vector<int64_t>& lengths, int64_t vocabulary,
                       const std::vector<int64_t>& row_offsets = {}) {
  constexpr uint64_t kSeed = 31;
  Documents documents;
  documents.layout = layout::make_packed(lengths);
  documents.layout.row_offsets = row_offsets;
  documents.ids = random_ids(documents.layout.tokens(), vocabulary, kSeed);
  documents.labels = random_ids(documents.layout.tokens(), vocabulary, kSeed + 1);
  documents.labels[1] = layout::kIgnoreLabel;
  return documents;
}

// Rows first … first + count as a packing of their own.
Documents part_of(const Documents& all, size_t first, size_t count) {
  const auto& rows = all.layout.row_offsets;
  const int64_t begin = rows[first], end = rows[first + count];
  std::vector<int64_t> lengths;
  for (int64_t d = 0; d < all.layout.documents(); ++d) {
    const auto document = all.layout.document(d);
    if (document.begin >= begin && document.begin < end) lengths.push_back(document.length);
  }
  const auto cut = [&](const std::vector<int64_t>& v) {
    return std::vector<int64_t>(v.begin() + begin, v.begin() + end);
  };
  Documents part{cut(all.ids), cut(all.labels), layout::make_packed(lengths)};
  for (size_t r = first; r <= first + count; ++r) part.layout.row_offsets.push_back(rows[r] - begin);
  part.layout.validate();
  return part;
}

Tensor main_loss(Context& context, Decoder& decoder, const Documents& documents) {
  return decoder.loss(context, decoder.hidden(context, id_tensor(documents.ids), documents.layout),
                      id_tensor(documents.labels));
}

double total_loss(Decoder& decoder, const Documents& documents) {
  LocalOps ops;
  Context context(ops, decoder.precision());
  double total = main_loss(context, decoder, documents).item<double>();
  for (const auto& [block, auxiliary] : context.auxiliary_losses) total += auxiliary.item<double>();
  return total;
}

std::vector<Tensor> gradients_of(Decoder& decoder, const std::vector<Documents>& micro_batches) {
  decoder.parameters().zero_gradients();
  LocalOps ops;
  for (const Documents& documents : micro_batches) {
    Context context(ops, decoder.precision());
    main_loss(context, decoder, documents).backward();
  }
  std::vector<Tensor> gradients;
  for (const auto& parameter : decoder.parameters().all()) gradients.push_back(parameter->grad.clone());
  return gradients;
}

class DecoderKinds : public ::testing::TestWithParam<NamedConfig> {};

// Central differences along a random direction of every logical parameter; their own error is about 1e-9.
TEST_P(DecoderKinds, GradientOfEveryParameterIsTheLosssSlope) {
  Decoder decoder = filled_decoder(GetParam().config);
  const Documents documents = documents_of({12, 9}, GetParam().config.vocabulary);
  const std::vector<Tensor> gradients = gradients_of(decoder, {documents});
  const at::NoGradGuard guard;
  uint64_t seed = 500;
  size_t logical = 0;
  for (size_t p = 0; p < gradients.size(); ++p) {
    Parameter& parameter = *decoder.parameters().all()[p];
    for (size_t i = 0; i < parameter.parts.size(); ++i) {
      ++logical;
      Tensor value = parameter.part_of(parameter.value.detach(), i);
      const Tensor direction = random_tensor(value.sizes(), ++seed);
      const double analytic = parameter.part_of(gradients[p], i).mul(direction).sum().item<double>();
      constexpr double kStep = 1e-6;
      value.add_(direction, kStep);
      const double above = total_loss(decoder, documents);
      value.add_(direction, -2 * kStep);
      const double below = total_loss(decoder, documents);
      value.add_(direction, kStep);
      const double numeric = (above - below) / (2 * kStep);
      const std::string& name = parameter.parts[i].spec.tensor.name;
      EXPECT_NEAR(analytic, numeric, 1e-6 * std::max(1.0, std::abs(numeric))) << name;
      // Softmax does not see what is added to all keys alike. Every other parameter must matter, or the check
      // proves nothing.
      if (!name.ends_with("key.bias")) {
        EXPECT_GT(std::abs(analytic), 1e-8) << name;
      }
    }
  }
  EXPECT_EQ(logical, layout::parameters(GetParam().config).size());
}

// All gradients, those of experts' auxiliary losses and of tokens ahead too, are 0.25 times those of a loss
// whose tokens weigh 1.
TEST_P(DecoderKinds, ALossOfAnotherScaleHasAuxiliaryLossesOfThatScale) {
  Decoder decoder = filled_decoder(GetParam().config);
  const Documents documents = documents_of({12, 9}, GetParam().config.vocabulary);
  const std::vector<Tensor> gradients = gradients_of(decoder, {documents});
  decoder.parameters().zero_gradients();
  LocalOps ops;
  Context context(ops, decoder.precision());
  context.auxiliary_scale = 0.25;
  const Tensor hidden = decoder.hidden(context, id_tensor(documents.ids), documents.layout);
  const Tensor weights = at::full({documents.layout.tokens()}, 0.25, at::kFloat);
  decoder.loss(context, hidden, id_tensor(documents.labels), {}, weights).backward();
  for (size_t p = 0; p < gradients.size(); ++p) {
    EXPECT_LT(relative_error(decoder.parameters().all()[p]->grad, gradients[p] * 0.25), 1e-10) << p;
  }
}

// Σ w (−log p) and the entropy, from the whole logits and the head's own gradient.
TEST_P(DecoderKinds, LogProbabilitiesAreThoseOfTheLogits) {
  Decoder decoder = filled_decoder(GetParam().config);
  const Documents documents = documents_of({12, 9}, GetParam().config.vocabulary);
  LocalOps ops;
  Context context(ops, decoder.precision());
  const Tensor hidden = decoder.hidden(context, id_tensor(documents.ids), documents.layout),
               labels = id_tensor(documents.labels);
  const auto found = decoder.log_probabilities(context, hidden, labels, {.temperature = 2, .entropy = true});
  const at::NoGradGuard guard;
  const Tensor log_p = decoder.logits(hidden).div(2).log_softmax(1), labelled = labels.ge(0);
  EXPECT_LT(relative_error(found.log_probability_t,
                           log_p.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1).mul(labelled)),
            1e-12);
  EXPECT_LT(relative_error(found.entropy_t, log_p.exp().mul(log_p).sum(1).neg().mul(labelled)), 1e-12);
}

TEST_P(DecoderKinds, PackedDocumentsAreTheSameAsOneAtATime) {
  const recipe::ModelConfig& config = GetParam().config;
  Decoder decoder = filled_decoder(config);
  // balance is asked of each document
  const Documents all = documents_of({5, 1, 9, 4}, config.vocabulary, {0, 5, 6, 15, 19});
  std::vector<Documents> single;
  for (size_t d = 0; d < 4; ++d) single.push_back(part_of(all, d, 1));

  const auto each = [&](const Documents& documents) {
    LocalOps ops;
    Context context(ops, decoder.precision());
    const at::NoGradGuard guard;
    return decoder.loss_each(decoder.hidden(context, id_tensor(documents.ids), documents.layout),
                             id_tensor(documents.labels));
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

// Four rows of nine tokens, of one, two and three documents: together, two by two, and one by one. With both
// auxiliary losses, and large.
TEST_P(DecoderKinds, MicroBatchesAddUpToTheBatch) {
  recipe::ModelConfig config = GetParam().config;
  if (config.experts > 0) config.auxiliary_loss = 2, config.z_loss = 0.5;
  Decoder decoder = filled_decoder(config);
  const Documents all = documents_of({9, 6, 3, 2, 3, 4, 8, 1}, config.vocabulary, {0, 9, 18, 27, 36});
  const auto whole = gradients_of(decoder, {all});
  for (const size_t rows : {2, 1}) {
    std::vector<Documents> parts;
    for (size_t first = 0; first < 4; first += rows) parts.push_back(part_of(all, first, rows));
    const auto split = gradients_of(decoder, parts);
    double sum = 0;
    for (const Documents& part : parts) sum += total_loss(decoder, part);
    EXPECT_NEAR(sum, total_loss(decoder, all), 1e-12 * sum);
    for (size_t p = 0; p < whole.size(); ++p) {
      // of the keys' biases it is 0
      const double scale = std::max(whole[p].abs().max().item<double>(), 1e-3);
      EXPECT_LT((split[p] - whole[p]).abs().max().item<double>(), 1e-12 * scale)
          << decoder.parameters().all()[p]->name << ", " << rows;
    }
  }
}

// bf16 has 8 bits: a loss of about ln 29 within a few percent, and finite gradients in fp32.
TEST_P(DecoderKinds, Bf16FollowsFp64) {
  const Documents documents = documents_of({7, 4}, GetParam().config.vocabulary);
  Decoder exact = filled_decoder(GetParam().config), rounded = filled_decoder(GetParam().config, "bf16");
  const double expected = total_loss(exact, documents);
  for (const Tensor& gradient : gradients_of(rounded, {documents})) {
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }
  EXPECT_NEAR(total_loss(rounded, documents), expected, 0.05 * expected);
}

TEST_P(DecoderKinds, PostponedWeightGradientsAreTheSameLater) {
  Decoder decoder = filled_decoder(GetParam().config);
  const Documents documents = documents_of({7, 4}, GetParam().config.vocabulary);
  const auto at_once = gradients_of(decoder, {documents});
  decoder.parameters().zero_gradients();
  std::vector<std::function<void()>> queue;
  LocalOps ops;
  Context context(ops, decoder.precision());
  decoder.parameters().postpone_gradients(&queue);
  main_loss(context, decoder, documents).backward();
  ASSERT_GE(queue.size(), static_cast<size_t>(4 * GetParam().config.layers));
  for (const auto& product : queue) product();
  for (size_t p = 0; p < at_once.size(); ++p) {
    EXPECT_TRUE(decoder.parameters().all()[p]->grad.equal(at_once[p])) << decoder.parameters().all()[p]->name;
  }
}

// Whoever sums gradients over ranks may begin with an arena when it is called ready: in the last backward
// pass, with nothing to come.
TEST_P(DecoderKinds, ArenasAreReadyOnceWithTheirWholeGradient) {
  Decoder decoder = filled_decoder(GetParam().config);
  ParameterSet& parameters = decoder.parameters();
  const std::vector<Documents> micro_batches = {documents_of({7, 4}, GetParam().config.vocabulary),
                                                documents_of({5, 6}, GetParam().config.vocabulary)};
  const auto expected = gradients_of(decoder, micro_batches);
  parameters.zero_gradients();
  std::map<const Arena*, Tensor> ready;
  bool last = false;
  parameters.begin_step([&](const Arena& arena) {
    EXPECT_TRUE(last) << arena.name;
    EXPECT_TRUE(ready.emplace(&arena, arena.gradients.clone()).second) << arena.name << " twice";
  });
  LocalOps ops;
  for (size_t m = 0; m < micro_batches.size(); ++m) {
    Context context(ops, decoder.precision());
    const Tensor loss = main_loss(context, decoder, micro_batches[m]);
    last = m + 1 == micro_batches.size();
    if (last) parameters.all_announced();
    loss.backward();
  }
  parameters.end_step();
  EXPECT_EQ(ready.size(), parameters.arenas().size());
  for (const auto& [arena, gradients] : ready) EXPECT_TRUE(gradients.equal(arena->gradients)) << arena->name;
  for (size_t p = 0; p < expected.size(); ++p) {
    EXPECT_TRUE(parameters.all()[p]->grad.equal(expected[p])) << parameters.all()[p]->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Small, DecoderKinds, ::testing::ValuesIn(small_models()),
                         [](const auto& named) { return named.param.name; });
INSTANTIATE_TEST_SUITE_P(Variants, DecoderKinds, ::testing::ValuesIn(variants_of_states()),
                         [](const auto& named) { return named.param.name; });

INSTANTIATE_TEST_SUITE_P(WithoutOrder, DecoderKinds,
                         ::testing::Values(NamedConfig{"without_order", without_order()}),
                         [](const auto& named) { return named.param.name; });

// Which tokens' ids change the hidden state of which: every pair of one document, and no other.
TEST(Decoder, WithoutAnOrderATokenReadsItsWholeDocumentAndNoOther) {
  for (const auto mixer : {recipe::Mixer::kLightnet, recipe::Mixer::kSoftmax}) {
    recipe::ModelConfig config = without_order();
    config.mixers = {mixer};
    Decoder decoder = filled_decoder(config);
    const Documents documents = documents_of({4, 1, 6}, config.vocabulary);
    const auto hidden_of = [&](const std::vector<int64_t>& ids) {
      const at::NoGradGuard guard;
      LocalOps ops;
      Context context(ops, decoder.precision());
      return decoder.hidden(context, id_tensor(ids), documents.layout);
    };
    const Tensor before = hidden_of(documents.ids);
    for (int64_t changed = 0; changed < documents.layout.tokens(); ++changed) {
      std::vector<int64_t> ids = documents.ids;
      ids[static_cast<size_t>(changed)] = (ids[static_cast<size_t>(changed)] + 1) % config.vocabulary;
      const Tensor difference = (hidden_of(ids) - before).abs().amax(1);
      for (int64_t t = 0; t < documents.layout.tokens(); ++t) {
        const bool together = documents.layout.document_of(t) == documents.layout.document_of(changed);
        EXPECT_EQ(difference[t].item<double>() > 1e-8, together)
            << "token " << t << " where token " << changed << " is another";
        if (!together) {
          EXPECT_EQ(difference[t].item<double>(), 0);
        }
      }
    }
  }
}

TEST(Decoder, WithoutAnOrderNothingIsDecoded) {
  Decoder decoder = filled_decoder(without_order());
  try {
    decoder.make_state();
    FAIL() << "a state";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_EQ(error.fields().found, "model.causal = false");
  }
  EXPECT_TRUE(recipe::state_of_layer(without_order(), 0).empty());
}

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
  decoder.loss(context, decoder.hidden(context, id_tensor(documents.ids), documents.layout),
               id_tensor(documents.labels));
  EXPECT_EQ(seen,
            (std::vector<std::string>{"embedding", "layers.0.mixer", "layers.0.channel", "layers.1.mixer",
                                      "layers.1.channel", "layers.2.mixer", "layers.2.channel", "loss"}));
}

}  // namespace
}  // namespace longhaul::model
