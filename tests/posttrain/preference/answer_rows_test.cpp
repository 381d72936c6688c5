// Rows of answers: every form that people have, and what is refused with its line.
#include "posttrain/preference/answer_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/files/temporary_folder.h"

namespace longhaul::posttrain {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

AnswerRow row_of(const std::string& line) { return answer_row(ordered_json::parse(line), "rows.jsonl:7"); }

std::string refusal_of(const std::string& line) {
  try {
    row_of(line);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.what(), HasSubstr("rows.jsonl:7"));
    return error.what();
  }
  return "read";
}

TEST(AnswerRowForms, PairOfTexts) {
  const AnswerRow row = row_of(R"({"prompt": "2 + 2 =", "chosen": " 4", "rejected": " 5", "id": 3})");
  EXPECT_EQ(row.form, RowForm::kPair);
  EXPECT_EQ(row.prompt, "2 + 2 =");
  EXPECT_THAT(row.answers, ElementsAre(" 4", " 5"));
}

TEST(AnswerRowForms, PairOfMessages) {
  const AnswerRow row = row_of(R"({"prompt": [{"role": "user", "content": "hi"}],
                                   "chosen": [{"role": "assistant", "content": "hello"}], "rejected": "go away"})");
  EXPECT_EQ(row.prompt.size(), 1u);
  EXPECT_EQ(row.answers[0][0]["content"], "hello");
  EXPECT_EQ(row.answers[1], ordered_json::parse(R"([{"role": "assistant", "content": "go away"}])"))
      << "a text is what the assistant said";
}

TEST(AnswerRowForms, PromptIsWhatBothConversationsBeginWith) {
  const AnswerRow row =
      row_of(R"({"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                                              {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}],
                                   "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                                                {"role": "user", "content": "c"}, {"role": "assistant", "content": "e"}]})");
  EXPECT_EQ(row.prompt.size(), 3u);
  EXPECT_EQ(row.answers[0][0]["content"], "d");
  EXPECT_EQ(row.answers[1][0]["content"], "e");
}

// One conversation ends where the other goes on: each keeps an answer.
TEST(AnswerRowForms, NoAnswerIsLostToTheCommonBeginning) {
  const AnswerRow row =
      row_of(R"({"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
                                   "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                                                {"role": "assistant", "content": "c"}]})");
  EXPECT_EQ(row.prompt.size(), 1u);
  EXPECT_EQ(row.answers[0].size(), 1u);
  EXPECT_EQ(row.answers[1].size(), 2u);
}

TEST(AnswerRowForms, PromptIsWhatBothTextsBeginWithInWholeWords) {
  const AnswerRow row = row_of(
      R"({"chosen": "Human: hi\n\nAssistant: hello", "rejected": "Human: hi\n\nAssistant: help yourself"})");
  EXPECT_EQ(row.prompt, "Human: hi\n\nAssistant: ");
  EXPECT_THAT(row.answers, ElementsAre("hello", "help yourself"));
}

TEST(AnswerRowForms, LabelledAndScored) {
  EXPECT_TRUE(row_of(R"({"prompt": "p", "completion": "c", "label": true})").good);
  EXPECT_FALSE(row_of(R"({"prompt": "p", "completion": "c", "label": 0})").good);
  EXPECT_EQ(row_of(R"({"prompt": "p", "completion": "c", "label": 0})").form, RowForm::kLabelled);
  const AnswerRow scored = row_of(R"({"prompt": "p", "completion": "c", "reward": -0.5})");
  EXPECT_EQ(scored.form, RowForm::kScored);
  EXPECT_THAT(scored.rewards, ElementsAre(-0.5));
  const AnswerRow several =
      row_of(R"({"prompt": "p", "completions": ["a", "b", "c"], "rewards": [1, 0, 0.5]})");
  EXPECT_THAT(several.answers, ElementsAre("a", "b", "c"));
  EXPECT_THAT(several.rewards, ElementsAre(1, 0, 0.5));
}

TEST(AnswerRowForms, RefusesWhatIsNone) {
  EXPECT_THAT(refusal_of(R"([1, 2])"), HasSubstr("a JSON object"));
  EXPECT_THAT(refusal_of(R"({"prompt": "p", "chosen": "c"})"), HasSubstr("\"rejected\""));
  EXPECT_THAT(refusal_of(R"({"text": "p"})"), HasSubstr("\"prompt\""));
  EXPECT_THAT(refusal_of(R"({"prompt": "p", "completion": "c"})"), HasSubstr("\"label\""));
  EXPECT_THAT(refusal_of(R"({"prompt": "p", "completion": "c", "label": "yes"})"),
              HasSubstr("true or false"));
  EXPECT_THAT(refusal_of(R"({"prompt": "p", "completion": "c", "reward": "high"})"), HasSubstr("finite"));
  EXPECT_THAT(refusal_of(R"({"prompt": "p", "completion": "c", "reward": null})"), HasSubstr("finite"));
  EXPECT_THAT(refusal_of(R"({"prompt": 3, "chosen": "c", "rejected": "d"})"),
              HasSubstr("a list of messages"));
  EXPECT_THAT(
      refusal_of(R"({"prompt": "p", "chosen": [{"role": "assistant", "content": "c"}], "rejected": "d"})"),
      HasSubstr("a text"));
  EXPECT_THAT(refusal_of(R"({"prompt": [{"content": "p"}], "chosen": "c", "rejected": "d"})"),
              HasSubstr("prompt[0]"));
  EXPECT_THAT(refusal_of(R"({"prompt": "p", "completions": ["a"], "rewards": [1, 2]})"),
              HasSubstr("one length"));
  EXPECT_THAT(refusal_of(R"({"chosen": "abc", "rejected": "abd"})"), HasSubstr("\"prompt\""));
  EXPECT_THAT(
      refusal_of(
          R"({"chosen": [{"role": "user", "content": "a"}], "rejected": [{"role": "user", "content": "b"}]})"),
      HasSubstr("messages with which both answers begin"));
}

class AnswerRowFiles : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  TemporaryFolder folder_;
};

TEST_F(AnswerRowFiles, ScoredAnswersToOnePromptAreOneRow) {
  const AnswerRows all =
      read_answer_rows(write("scored.jsonl",
                             "{\"prompt\": \"p\", \"completion\": \"a\", \"reward\": 1}\n\n"
                             "{\"prompt\": \"q\", \"completion\": \"b\", \"reward\": 2, \"model\": \"m\"}\n"
                             "{\"prompt\": \"p\", \"completion\": \"c\", \"reward\": 3}"),
                       false);
  ASSERT_EQ(all.rows.size(), 2u);
  EXPECT_THAT(all.rows[0].answers, ElementsAre("a", "c"));
  EXPECT_THAT(all.rows[0].rewards, ElementsAre(1, 3));
  EXPECT_EQ(all.unread, (std::map<std::string, int64_t>{{"model", 1}}));
}

TEST_F(AnswerRowFiles, NameTheLineOrLeaveItOut) {
  const auto path = write("bad.jsonl",
                          "{\"prompt\": \"p\", \"chosen\": \"a\", \"rejected\": \"b\"}\n"
                          "{\"prompt\": \"p\", \"completion\": \"a\", \"reward\": NaN}\n");
  try {
    read_answer_rows(path, false);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.what(), HasSubstr("bad.jsonl:2"));
    EXPECT_THAT(error.what(), HasSubstr("preference.skip_bad_rows=true"));
  }
  const AnswerRows all = read_answer_rows(path, true);
  EXPECT_EQ(all.rows.size(), 1u);
  EXPECT_EQ(all.bad, 1);
  EXPECT_THAT(all.first_bad, HasSubstr("bad.jsonl:2"));
}

TEST_F(AnswerRowFiles, FolderIsReadInTheOrderOfNames) {
  write("b.jsonl", "{\"prompt\": \"2\", \"chosen\": \"a\", \"rejected\": \"b\"}\n");
  write("a.jsonl", "{\"prompt\": \"1\", \"chosen\": \"a\", \"rejected\": \"b\"}\n");
  write("notes.txt", "no rows\n");
  const AnswerRows all = read_answer_rows(folder_ / ".", false);
  ASSERT_EQ(all.rows.size(), 2u);
  EXPECT_EQ(all.rows[0].prompt, "1");
}

TEST_F(AnswerRowFiles, EmptyOrMissingOnesAreRefused) {
  EXPECT_THROW(read_answer_rows(write("empty.jsonl", "\n"), false), Error);
  EXPECT_THROW(read_answer_rows(folder_ / "none.jsonl", false), Error);
}

}  // namespace
}  // namespace longhaul::posttrain
