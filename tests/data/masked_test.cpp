// Masked tokens: which are masked, what stands there and what is asked of them; whatever the ranks,
// micro-batches and steps are.
#include "data/order/masked.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "data/order/evaluation.h"
#include "data/order/loader.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

class MaskedTokens : public testing::Test {
 protected:
  MaskedTokens() {
    write_documents(folder_ / "texts", 60, 400);
    source_ = prepare(corpus_of(folder_ / "texts"), 0, byte_encoder(), folder_ / "cache");
  }
  Loader loader(int64_t batch = 6) const {
    return {{&source_.train}, with_batch({.sequence = 32, .seed = 5}, batch)};
  }
  static Masking masks(double share = 0.3) { return training_masks(Tokenizer::bytes(), share, 7); }
  TemporaryFolder folder_;
  PreparedSource source_;
};

TEST_F(MaskedTokens, StandWhereTheyAreAskedFor) {
  const Batch plain = loader().batch_at(2), masked = with_masks(plain, masks());
  EXPECT_EQ(masked.layout, plain.layout);
  int64_t targets = 0;
  for (size_t t = 0; t < plain.inputs.size(); ++t) {
    const bool is_masked = masked.inputs[t] != plain.inputs[t];
    // behind the 256 bytes and the end of a document
    EXPECT_EQ(masked.inputs[t], is_masked ? 257 : plain.inputs[t]);
    EXPECT_EQ(masked.labels[t], is_masked ? plain.inputs[t] : layout::kIgnoreLabel);
    targets += is_masked;
  }
  EXPECT_EQ(masked.target_tokens, targets);
  EXPECT_EQ(masked.target_bytes, 0);
}

// Of n draws with probability p the share is p, ± 5 standard deviations; separators, those of padding among
// them, are no draws.
TEST_F(MaskedTokens, AreTheirShareOfTheTextAndOfNothingElse) {
  for (const double share : {0.15, 0.5, 1.0}) {
    double masked = 0, text = 0;
    for (int64_t step = 0; step < 40; ++step) {
      const Batch plain = loader().batch_at(step), batch = with_masks(plain, masks(share));
      for (size_t t = 0; t < plain.inputs.size(); ++t) {
        if (plain.inputs[t] == 256) {
          EXPECT_EQ(batch.labels[t], layout::kIgnoreLabel);
        }
        text += plain.inputs[t] != 256;
      }
      masked += static_cast<double>(batch.target_tokens);
    }
    EXPECT_NEAR(masked / text, share, 5 * std::sqrt(share * (1 - share) / text) + 1e-12) << share;
  }
}

TEST_F(MaskedTokens, DoNotDependOnRanksMicroBatchesOrWhereAStepBegins) {
  const Batch whole = with_masks(loader().batch_at(3), masks());
  std::vector<int64_t> inputs, labels;
  for (int64_t rank = 0; rank < 3; ++rank) {
    for (const Batch& part : micro_batches(with_masks(loader().batch_at(3, rank, 3), masks()), 1)) {
      inputs.insert(inputs.end(), part.inputs.begin(), part.inputs.end());
      labels.insert(labels.end(), part.labels.begin(), part.labels.end());
    }
  }
  EXPECT_EQ(inputs, whole.inputs);
  EXPECT_EQ(labels, whole.labels);
  // rows 18 … 26, of which the first six are those of step 3
  const Batch other_steps = with_masks(loader(9).batch_at(2), masks());
  EXPECT_TRUE(std::ranges::equal(std::span(other_steps.inputs).first(whole.inputs.size()), whole.inputs));
}

TEST_F(MaskedTokens, AreOthersInEveryEpochAndWithAnotherSeed) {
  const Batch plain = loader().batch_at(0);
  const auto masked = [&](int64_t position, int64_t seed) {
    Batch batch = plain;
    batch.first_position = position;
    return with_masks(batch, training_masks(Tokenizer::bytes(), 0.3, seed)).labels;
  };
  EXPECT_EQ(masked(0, 7), masked(0, 7));
  EXPECT_NE(masked(0, 7), masked(600, 7));
  EXPECT_NE(masked(0, 7), masked(0, 8));
}

TEST_F(MaskedTokens, OfAnEvaluationAreTheSameEveryTimeHoweverItIsCut) {
  const auto pass = [&](int64_t tokens_per_batch) {
    EvaluationReader reader({&source_.train}, {.context = 16,
                                               .tokens_per_batch = tokens_per_batch,
                                               .masking = evaluation_masks(Tokenizer::bytes(), 0.3)});
    std::vector<int64_t> inputs;
    int64_t targets = 0;
    while (const auto batch = reader.next()) {
      inputs.insert(inputs.end(), batch->inputs.begin(), batch->inputs.end());
      targets += batch->target_tokens;
      EXPECT_EQ(batch->target_tokens, std::ranges::count(batch->inputs, 257));
      EXPECT_EQ(batch->target_bytes, 0);
    }
    EXPECT_EQ(targets, std::ranges::count(inputs, 257));
    EXPECT_GT(targets, 100);
    // which are chosen by chance
    EXPECT_NEAR(reader.tokens(), targets, 4 * std::sqrt(0.3 * 0.7 * inputs.size()));
    return inputs;
  };
  EXPECT_EQ(pass(64), pass(1000));
  EXPECT_EQ(error_of([&] {
              EvaluationReader(
                  {&source_.train},
                  {.context = 8, .overlap = 2, .masking = evaluation_masks(Tokenizer::bytes(), 0.3)});
            }).code(),
            ExitCode::kUsage);
}

TEST(MaskToken, IsTheTokenizersOwnOrTheOneBehindIt) {
  EXPECT_EQ(mask_token(Tokenizer::bytes()), 257);
  EXPECT_EQ(rows_with_mask(Tokenizer::bytes()), 258);
  const auto with = [](const char* content, bool special) {
    nlohmann::json json = nlohmann::json::parse(
        R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
      "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},"post_processor":null,
      "decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})");
    for (const auto& [id, text] : {std::pair{3, content}, {4, "<end>"}}) {
      json["added_tokens"].push_back({{"id", id},
                                      {"content", text},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", special}});
    }
    return Tokenizer::from_json(json.dump(), "t.json");
  };
  for (const char* own : {"[MASK]", "<mask>", "<|mask|>"}) {
    EXPECT_EQ(mask_token(with(own, true)), 3) << own;
    EXPECT_EQ(rows_with_mask(with(own, true)), 5) << own;
  }
  EXPECT_EQ(mask_token(with("[MASK]", false)), 5) << "text that looks like one";
  EXPECT_EQ(mask_token(with("<pad>", true)), 5);
}

}  // namespace
}  // namespace longhaul::data
