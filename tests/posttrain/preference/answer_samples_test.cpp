// Answers as tokens: prompts that are the same with either answer, what a loss makes of rows of another form,
// and what is left out.
#include "posttrain/preference/answer_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/files/temporary_folder.h"
#include "posttrain/preference/packed_answers.h"

namespace longhaul::posttrain {
namespace {

using data::Tokenizer;
using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Unit = SampleWish::Unit;

constexpr int32_t kEnd = 256;  // of the tokenizer of bytes
constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{{ '<|end_of_document|>' }}\n{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";

std::vector<int32_t> bytes_of(const std::string& text) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::vector<int32_t> with_end(std::vector<int32_t> ids) {
  ids.push_back(kEnd);
  return ids;
}

AnswerRow row_from(const std::string& line) { return answer_row(ordered_json::parse(line), "rows.jsonl:1"); }

class AnswerSamplesOf : public ::testing::Test {
 protected:
  AnswerEncoder chat(const std::string& source = kTemplate) const {
    std::ofstream(folder_ / "template.jinja") << source;
    return {bytes_, data::chat::ChatFormat::of_file(folder_ / "template.jinja", folder_ / "none")};
  }
  AnswerSamples made(const std::vector<std::string>& lines, Unit unit, int64_t sequence = 64,
                     int64_t vocabulary = 257) const {
    std::vector<AnswerRow> rows;
    for (const std::string& line : lines) rows.push_back(row_from(line));
    return make_samples(rows, AnswerEncoder(bytes_, std::nullopt),
                        {.unit = unit, .sequence = sequence, .vocabulary = vocabulary}, "rows.jsonl");
  }
  std::string refusal(const std::vector<std::string>& lines, Unit unit, int64_t sequence = 64,
                      int64_t vocabulary = 257) const {
    try {
      made(lines, unit, sequence, vocabulary);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      return error.what();
    }
    return "made";
  }
  TemporaryFolder folder_;
  Tokenizer bytes_ = Tokenizer::bytes();
};

TEST_F(AnswerSamplesOf, TextsBeginAndEndAsTheTokenizerHasIt) {
  const auto encoded = AnswerEncoder(bytes_, std::nullopt)
                           .encode(row_from(R"({"prompt": "ab", "chosen": "c", "rejected": "de"})"));
  std::vector<int32_t> prompt = {kEnd, 'a', 'b'};
  EXPECT_EQ(encoded.prompt, prompt);
  EXPECT_THAT(encoded.answers, ElementsAre(with_end(bytes_of("c")), with_end(bytes_of("de"))));
}

TEST_F(AnswerSamplesOf, AnswerThatEndsGetsNoSecondEnd) {
  const auto encoded =
      AnswerEncoder(bytes_, std::nullopt)
          .encode(row_from(R"({"prompt": "ab", "chosen": "c<|end_of_document|>", "rejected": ""})"));
  EXPECT_EQ(encoded.answers[0].back(), kEnd);
  EXPECT_EQ(std::ranges::count(encoded.answers[0], kEnd), 1);
  EXPECT_TRUE(encoded.answers[1].empty()) << "nothing but an end is no answer";
}

TEST_F(AnswerSamplesOf, ConversationsAreCutWhereTheAnswerBegins) {
  const auto encoded = chat().encode(row_from(
      R"({"prompt": [{"role": "user", "content": "hi"}], "chosen": [{"role": "assistant", "content": "yes"}], "rejected": "no"})"));
  std::vector<int32_t> prompt = with_end(bytes_of("u:hi"));
  for (const int32_t id : bytes_of("\na:")) prompt.push_back(id);
  EXPECT_EQ(encoded.prompt, prompt);
  EXPECT_THAT(encoded.answers, ElementsAre(with_end(bytes_of("yes")), with_end(bytes_of("no"))))
      << "not the line end after the turn";
}

// No message can spell the end of its own turn.
TEST_F(AnswerSamplesOf, MessagesHoldNoSpecialTokens) {
  const auto encoded = chat().encode(row_from(
      R"({"prompt": [{"role": "user", "content": "hi"}], "chosen": "a<|end_of_document|>b", "rejected": "no"})"));
  EXPECT_EQ(encoded.answers[0], with_end(bytes_of("a<|end_of_document|>b")));
}

TEST_F(AnswerSamplesOf, TemplateThatChangesThePromptIsRefused) {
  const AnswerEncoder encoder =
      chat("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
  try {
    encoder.encode(
        row_from(R"({"prompt": [{"role": "user", "content": "hi"}], "chosen": "a", "rejected": "b"})"));
    ADD_FAILURE() << "encoded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("preference.template=FILE"));
  }
}

TEST_F(AnswerSamplesOf, MessagesWithoutATemplateAreRefused) {
  EXPECT_THROW(AnswerEncoder(bytes_, std::nullopt)
                   .encode(row_from(
                       R"({"prompt": [{"role": "user", "content": "hi"}], "chosen": "a", "rejected": "b"})")),
               Error);
}

TEST_F(AnswerSamplesOf, RowsBecomeWhatTheLossTakes) {
  const std::string pair = R"({"prompt": "p", "chosen": "good", "rejected": "bad"})";
  const std::string scored = R"({"prompt": "q", "completions": ["x", "y", "z"], "rewards": [0, 2, -1]})";
  const auto pairs = made({pair, scored}, Unit::kPairs).samples;
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_THAT(pairs[1].answers, ElementsAre(with_end(bytes_of("y")), with_end(bytes_of("z"))))
      << "the best and the worst";
  const auto labelled = made({pair}, Unit::kLabelled).samples;
  ASSERT_EQ(labelled.size(), 2u);
  EXPECT_TRUE(labelled[0].good);
  EXPECT_FALSE(labelled[1].good);
  EXPECT_EQ(labelled[1].answers[0], with_end(bytes_of("bad")));
  const auto best =
      made({pair, scored, R"({"prompt": "r", "completion": "c", "label": true})"}, Unit::kBest).samples;
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].answers[0], with_end(bytes_of("good")));
  EXPECT_EQ(best[1].answers[0], with_end(bytes_of("y")));
  const auto each = made({scored}, Unit::kScored).samples;
  ASSERT_EQ(each.size(), 3u);
  EXPECT_EQ(each[1].reward, 2);
  EXPECT_THAT(refusal({pair}, Unit::kScored), HasSubstr("answers with a \"reward\""));
  EXPECT_THAT(refusal({scored}, Unit::kLabelled), HasSubstr("preference.loss"));
}

TEST_F(AnswerSamplesOf, WhatCannotBeLearnedFromIsCounted) {
  const AnswerSamples all =
      made({R"({"prompt": "p", "chosen": "a", "rejected": "b"})",
            R"({"prompt": "p", "chosen": "a", "rejected": "a"})",
            R"({"prompt": "p", "chosen": "", "rejected": "b"})",
            R"({"prompt": "a prompt that is longer than a row", "chosen": "a", "rejected": "b"})",
            R"({"prompt": "q", "completions": ["x", "y"], "rewards": [1, 1]})"},
           Unit::kPairs, 20);
  EXPECT_EQ(all.samples.size(), 1u);
  EXPECT_EQ(all.equal, 1);
  EXPECT_EQ(all.empty, 1);
  EXPECT_EQ(all.too_long, 1);
  EXPECT_EQ(all.of_no_use, 1);
}

// A pair has (2 + 2 − 1) + (2 + 3 − 1) inputs.
TEST_F(AnswerSamplesOf, BothAnswersMustFitIntoARow) {
  const std::string line = R"({"prompt": "p", "chosen": "a", "rejected": "bb"})";
  EXPECT_EQ(made({line}, Unit::kPairs, 7).samples[0].inputs(), 7);
  EXPECT_THAT(refusal({line}, Unit::kPairs, 6), HasSubstr("1 too long"));
}

TEST_F(AnswerSamplesOf, TokensWithoutARowOfTheModelAreRefused) {
  EXPECT_THAT(refusal({R"({"prompt": "p", "chosen": "a", "rejected": "b"})"}, Unit::kPairs, 64, 256),
              HasSubstr("ids from 0 to 255"));
}

TEST_F(AnswerSamplesOf, FingerprintSeesEveryTokenAndReward) {
  const auto print = [&](const std::string& line, Unit unit) { return made({line}, unit).fingerprint(); };
  const std::string first = print(R"({"prompt": "p", "chosen": "a", "rejected": "b"})", Unit::kPairs);
  EXPECT_EQ(first, print(R"({"prompt": "p", "chosen": "a", "rejected": "b", "n": 1})", Unit::kPairs));
  EXPECT_NE(first, print(R"({"prompt": "p", "chosen": "b", "rejected": "a"})", Unit::kPairs));
  EXPECT_NE(first, print(R"({"prompt": "pa", "chosen": "a", "rejected": "b"})", Unit::kPairs));
  EXPECT_NE(print(R"({"prompt": "p", "completion": "a", "reward": 1})", Unit::kScored),
            print(R"({"prompt": "p", "completion": "a", "reward": 2})", Unit::kScored));
}

TEST_F(AnswerSamplesOf, HeldOutPromptsAreNotTrainedOn) {
  std::ofstream file(folder_ / "pairs.jsonl");
  for (int i = 0; i < 200; ++i) {  // every prompt twice
    file << "{\"prompt\": \"" << i / 2 << "\", \"chosen\": \"a" << i << "\", \"rejected\": \"b\"}\n";
  }
  file.close();
  AnswerDataOptions options{
      .data = folder_ / "pairs.jsonl", .held_out = {}, .held_out_percent = 20, .chat_template = {}};
  const SampleWish wish{.unit = Unit::kPairs, .sequence = 64, .vocabulary = 257};
  const AnswerEncoder encoder(bytes_, std::nullopt);
  const SplitSamples split = open_samples(options, encoder, wish, false);
  EXPECT_EQ(split.train.samples.size() + split.held_out.samples.size(), 200u);
  EXPECT_GT(split.held_out.samples.size(), 10u);
  EXPECT_LT(split.held_out.samples.size(), 80u);
  for (const AnswerSample& judged : split.held_out.samples) {
    for (const AnswerSample& trained : split.train.samples) EXPECT_NE(judged.prompt, trained.prompt);
  }
  // The same of a file of their own.
  std::ofstream(folder_ / "judge.jsonl") << "{\"prompt\": \"7\", \"chosen\": \"a\", \"rejected\": \"b\"}\n";
  options.held_out = folder_ / "judge.jsonl";
  const SplitSamples apart = open_samples(options, encoder, wish, false);
  EXPECT_EQ(apart.train.samples.size(), 198u);
  EXPECT_EQ(apart.held_out.samples.size(), 1u);
}

TEST(PackedAnswersOf, DocumentsEndBeforeTheLastTokenOfTheirAnswer) {
  AnswerPacker packer;
  packer.begin_sample(5);
  packer.add({1, 2}, {3});
  packer.add({1, 2}, {4, 5, 6});
  packer.begin_sample(9);
  packer.add({7}, {8, 9});
  const PackedAnswers packed = packer.finish();
  EXPECT_THAT(packed.inputs, ElementsAre(1, 2, 1, 2, 4, 5, 7, 8));
  EXPECT_THAT(packed.labels, ElementsAre(-1, 3, -1, 4, 5, 6, 8, 9));
  EXPECT_THAT(packed.layout.document_offsets, ElementsAre(0, 2, 6, 8));
  EXPECT_THAT(packed.layout.row_offsets, ElementsAre(0, 6, 8));
  EXPECT_THAT(packed.layout.positions, ElementsAre(0, 1, 0, 1, 2, 3, 0, 1));
  EXPECT_THAT(packed.tokens, ElementsAre(1, 3, 2));
  EXPECT_THAT(packed.last, ElementsAre(1, 5, 7));
  EXPECT_THAT(packed.samples, ElementsAre(5, 9));
}

TEST(PackedAnswersOf, SumsAreOfEachDocument) {
  const parallel::Ranks alone;
  const Tensor values = at::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, at::kDouble).requires_grad_(true);
  const layout::SequenceView view(layout::make_packed(std::vector<int64_t>{2, 0, 4}));
  const Tensor sums = sums_of_documents(values, view, alone);
  EXPECT_EQ(sums[0].item<double>(), 3);
  EXPECT_EQ(sums[1].item<double>(), 0);
  EXPECT_EQ(sums[2].item<double>(), 18);
  (sums[2] * 2).backward();
  EXPECT_EQ(values.grad()[1].item<double>(), 0);
  EXPECT_EQ(values.grad()[2].item<double>(), 2);
}

}  // namespace
}  // namespace longhaul::posttrain
