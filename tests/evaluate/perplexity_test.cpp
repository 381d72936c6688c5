// Perplexity against known values, and that every byte is counted once however the text is cut.
#include "evaluate/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/support.h"
#include "evaluate/ranks.h"
#include "support/models.h"

namespace longhaul::evaluate {
namespace {

using namespace longhaul::testing;

recipe::ModelConfig byte_model() {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.vocabulary = 257;
  return config;
}

class Perplexity : public ::testing::Test {
 protected:
  Perplexity() {
    data::write_documents(folder_ / "text", 9, 150);
    const data::Corpus corpus = data::corpus_of(folder_ / "text", 40);
    source_.emplace(data::prepare(corpus, 0, data::byte_encoder(), folder_ / "cache"));
  }
  const data::TokenDataset& held_out() const { return source_->held_out; }
  EvaluationResult run(model::Decoder& decoder, data::EvaluationOptions options) {
    data::EvaluationReader reader({&held_out()}, options);
    return *evaluate(decoder, reader);
  }

  TemporaryFolder folder_;
  std::optional<data::PreparedSource> source_;
};

// Zero weights give every token the same probability: each target costs log2 V bits.
TEST_F(Perplexity, UniformModelHasKnownBitsPerByte) {
  ASSERT_GT(held_out().documents(), 1);
  model::Decoder decoder(byte_model(), Precision::named("fp64"));
  const EvaluationResult result = run(decoder, {.context = 40, .tokens_per_batch = 64});
  EXPECT_EQ(result.bytes, held_out().text_bytes());
  EXPECT_EQ(result.tokens, held_out().tokens() + held_out().documents());
  EXPECT_NEAR(result.loss, std::log(257.0), 1e-12);
  EXPECT_NEAR(result.perplexity, 257, 1e-9);
  EXPECT_NEAR(result.bits_per_byte,
              std::log2(257.0) * static_cast<double>(result.tokens) / static_cast<double>(result.bytes),
              1e-12);
}

TEST_F(Perplexity, EveryByteCountsOnceHoweverTheTextIsCut) {
  model::Decoder decoder(byte_model(), Precision::named("fp64"));
  for (const data::EvaluationOptions& options :
       {data::EvaluationOptions{.context = 7, .tokens_per_batch = 20},
        data::EvaluationOptions{.context = 16, .tokens_per_batch = 1, .overlap = 5},
        data::EvaluationOptions{.context = 4096, .tokens_per_batch = 100000}}) {
    const EvaluationResult result = run(decoder, options);
    EXPECT_EQ(result.bytes, held_out().text_bytes());
    EXPECT_EQ(result.tokens, held_out().tokens() + held_out().documents());
  }
}

// Ranks that take batches in turn have what one has, to the bit; of more ranks than batches some have nothing
// to do.
TEST_F(Perplexity, OfSeveralRanksIsThatOfOne) {
  const data::EvaluationOptions options{.context = 16, .tokens_per_batch = 40, .overlap = 5};
  model::Decoder one = filled_decoder(byte_model());
  data::EvaluationReader reader({&held_out()}, options);
  int64_t batches = 0;
  const auto count = [&](int64_t) { return ++batches > 0; };
  const EvaluationResult expected = *evaluate(one, reader, count, Accuracy::kYes);
  ASSERT_GT(batches, 5);
  for (const int64_t ranks : {int64_t{2}, int64_t{3}, batches + 1}) {
    const auto results = on_ranks<EvaluationResult>(ranks, [&](const EvaluationShare& share) {
      model::Decoder decoder = filled_decoder(byte_model());
      data::EvaluationReader own({&held_out()}, options);
      return *evaluate(decoder, own, {}, Accuracy::kYes, share);
    });
    for (const EvaluationResult& result : results) {
      EXPECT_EQ(result.loss, expected.loss) << ranks;
      EXPECT_EQ(result.accuracy, expected.accuracy) << ranks;
      EXPECT_EQ(result.tokens, expected.tokens);
      EXPECT_EQ(result.bytes, expected.bytes);
    }
  }
}

// Documents stand alone, so how they are packed into batches changes nothing; and the mean is that of the
// documents one by one.
TEST_F(Perplexity, IsTheMeanLossOfTheDocuments) {
  model::Decoder decoder = filled_decoder(byte_model());
  double nats = 0, targets = 0;
  model::LocalOps ops;
  const at::NoGradGuard guard;
  for (int64_t d = 0; d < held_out().documents(); ++d) {
    std::vector<int64_t> ids(static_cast<size_t>(held_out().length(d)));
    held_out().read(d, 0, ids);
    std::vector<int64_t> inputs = {256}, labels = ids;
    inputs.insert(inputs.end(), ids.begin(), ids.end());
    labels.push_back(256);
    model::Context context(ops, decoder.precision());
    context.training = false;
    const Tensor hidden =
        decoder.hidden(context, id_tensor(inputs), layout::make_single(static_cast<int64_t>(inputs.size())));
    nats += decoder.loss_each(hidden, id_tensor(labels)).sum().item<double>();
    targets += static_cast<double>(labels.size());
  }
  int64_t seen = 0;
  data::EvaluationReader reader({&held_out()}, {.context = 4096, .tokens_per_batch = 200});
  const EvaluationResult result = *evaluate(decoder, reader, [&](int64_t tokens) {
    seen += tokens;
    return true;
  });
  EXPECT_NEAR(result.loss, nats / targets, 1e-10);
  EXPECT_EQ(seen, result.tokens);
  EXPECT_NEAR(run(decoder, {.context = 4096, .tokens_per_batch = 1}).loss, result.loss, 1e-10);
}

// Against the argmax of each document's logits; a stride changes which tokens stand before a target, never
// which are targets.
TEST_F(Perplexity, NextTokensAreTheLikeliestOnes) {
  model::Decoder decoder = filled_decoder(byte_model());
  int64_t right = 0, targets = 0;
  model::LocalOps ops;
  const at::NoGradGuard guard;
  for (int64_t d = 0; d < held_out().documents(); ++d) {
    std::vector<int64_t> ids(static_cast<size_t>(held_out().length(d)));
    held_out().read(d, 0, ids);
    std::vector<int64_t> inputs = {256}, labels = ids;
    inputs.insert(inputs.end(), ids.begin(), ids.end());
    labels.push_back(256);
    model::Context context(ops, decoder.precision());
    context.training = false;
    const Tensor logits = decoder.logits(
        decoder.hidden(context, id_tensor(inputs), layout::make_single(static_cast<int64_t>(inputs.size()))));
    for (size_t t = 0; t < labels.size(); ++t)
      right += logits[static_cast<int64_t>(t)].argmax().item<int64_t>() == labels[t];
    targets += static_cast<int64_t>(labels.size());
  }
  data::EvaluationReader reader({&held_out()}, {.context = 4096, .tokens_per_batch = 200});
  const EvaluationResult result = *evaluate(decoder, reader, {}, Accuracy::kYes);
  EXPECT_DOUBLE_EQ(*result.accuracy, static_cast<double>(right) / static_cast<double>(targets));
  EXPECT_GT(right, 0);
  data::EvaluationReader again({&held_out()}, {.context = 4096, .tokens_per_batch = 200});
  EXPECT_FALSE(evaluate(decoder, again)->accuracy);
}

TEST_F(Perplexity, StopsBetweenBatchesWhenToldTo) {
  model::Decoder decoder = filled_decoder(byte_model());
  data::EvaluationReader reader({&held_out()}, {.context = 32, .tokens_per_batch = 64});
  int batches = 0;
  EXPECT_FALSE(evaluate(decoder, reader, [&](int64_t) { return ++batches < 2; }));
  EXPECT_EQ(batches, 2);
  EXPECT_TRUE(reader.next()) << "the text was read to its end";
}

TEST_F(Perplexity, RefusesNothingToEvaluate) {
  model::Decoder decoder(byte_model(), Precision::named("fp32"));
  data::EvaluationReader reader({}, {});
  EXPECT_EQ(data::error_of([&] { evaluate(decoder, reader); }).code(), ExitCode::kData);
}

}  // namespace
}  // namespace longhaul::evaluate
