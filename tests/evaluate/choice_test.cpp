// Multiple choice: formulas and prompts against values that lm-evaluation-harness 0.4.13 gives, worked out by
// hand from its source.
#include "evaluate/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "data/support.h"
#include "data/template_tokenizer.h"
#include "evaluate/choice_files.h"
#include "evaluate/known_answers.h"
#include "support/places.h"

namespace longhaul::evaluate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ll: −10, −12, −13.5. Characters 4, 6, 9 → −2.5, −2, −1.5. "é…" has 9 characters in 18 bytes → bytes: −2.5,
// −2, −0.75. Behind nothing: −6, −9, −9 → gains −4, −3, −4.5.
TEST(Choice, FormulasAreThoseOfTheHarness) {
  ChoiceItem item{.contexts = {"c"},
                  .continuations = {" four", " sixsix", " ééééééééé"},
                  .choices = {"four", "sixsix", "ééééééééé"},
                  .gold = 0};
  const ChoiceScores scores{.conditional = {-10, -12, -13.5}, .unconditional = {-6, -9, -9}};
  const auto right = [&](int64_t gold) {
    item.gold = gold;
    const ChoiceOutcome o = outcome_of(item, scores);
    return std::array{o.acc, o.acc_norm, o.acc_bytes, o.acc_mutual_info};
  };
  EXPECT_THAT(right(0), ElementsAre(true, false, false, false));
  EXPECT_THAT(right(1), ElementsAre(false, false, false, true));
  EXPECT_THAT(right(2), ElementsAre(false, true, true, false));
  // Characters and bytes may disagree: −8 over 4 and 4; −9 over 3 characters, 6 bytes.
  item = {.contexts = {"c"}, .continuations = {" abcd", " äöü"}, .choices = {"abcd", "äöü"}, .gold = 1};
  const ChoiceOutcome o = outcome_of(item, {.conditional = {-8, -9}, .unconditional = {0, 0}});
  EXPECT_FALSE(o.acc_norm);
  EXPECT_TRUE(o.acc_bytes);
  // Of equals the first: numpy's argmax.
  EXPECT_TRUE(outcome_of({.contexts = {"c"}, .continuations = {" a", " b"}, .choices = {"a", "b"}, .gold = 0},
                         {{-1, -1}, {-1, -1}})
                  .acc);
}

TEST(Choice, PairsAreCutWhereTheContextEnds) {
  const data::Tokenizer bytes = data::Tokenizer::bytes();
  const EncodedPair pair = encode_pair(bytes, "ab  ", "c");  // spaces go to the continuation
  EXPECT_THAT(pair.ids, ElementsAre(256, 'a', 'b', ' ', ' ', 'c'));
  EXPECT_EQ(pair.scored, 3);
  const EncodedPair alone = encode_pair(bytes, "", " c");
  EXPECT_THAT(alone.ids, ElementsAre(256, ' ', 'c'));
  EXPECT_EQ(alone.scored, 2);
}

// Knows every passage's log-probability: the sum over the continuation's bytes of −(byte mod 7).
class ByBytes final : public Answers {
 public:
  std::vector<std::vector<Judged>> judge(std::span<const Passage> passages) override {
    std::vector<std::vector<Judged>> result;
    for (const Passage& passage : passages) {
      auto& judged = result.emplace_back();
      for (const Target& target : passage.targets) {
        // The token before the target is really the one that stands there.
        if (target.position + 1 < static_cast<int64_t>(passage.ids.size())) {
          EXPECT_EQ(passage.ids[static_cast<size_t>(target.position + 1)], target.id);
        }
        judged.push_back({.log_probability = -static_cast<double>(target.id % 7), .predicted = 0});
      }
    }
    return result;
  }
  std::vector<int64_t> complete(std::span<const int64_t>, int64_t, std::span<const int64_t>) override {
    return {};
  }
};

// ' ' = 32 → 4; 'a' = 97 → 6; 'b' → 0; 'c' → 1. " a" −10, " bb" −4, " bc" −5.
TEST(Choice, ScoresAreSumsOverTheContinuation) {
  ByBytes answers;
  const std::vector<ChoiceItem> items = {{{"x"}, {" a", " bb", " bc"}, {"a", "bb", "bc"}, 1},
                                         {{"x"}, {" a", " bb"}, {"a", "bb"}, 0}};
  const ChoiceResult result = score_choices(answers, data::Tokenizer::bytes(), items);
  EXPECT_EQ(result.items, 2);
  EXPECT_DOUBLE_EQ(result.acc, 0.5);
  EXPECT_DOUBLE_EQ(result.acc_error, std::sqrt(0.25 / 1));
  EXPECT_DOUBLE_EQ(result.chance, (1 / 3.0 + 1 / 2.0) / 2);
}

// As the harness has it (0.4.13): a template's tokens before a context, nothing without one, the
// end-of-document token before none.
TEST(Choice, WhatStandsBeforeAContextIsTheTokenizers) {
  const data::Tokenizer llama = data::bytes_with("</s>", {"<s>"}, {"<s>"}),
                        gpt2 = data::bytes_with("<|endoftext|>", {});
  EXPECT_THAT(encode_pair(llama, "a", " b").ids, ElementsAre(257, 'a', ' ', 'b'));
  EXPECT_THAT(encode_pair(llama, "<s>a", " b").ids, ElementsAre(257, 'a', ' ', 'b')) << "not twice";
  EXPECT_THAT(encode_pair(llama, "", " b").ids, ElementsAre(257, ' ', 'b'));
  EXPECT_THAT(encode_pair(gpt2, "a", " b").ids, ElementsAre('a', ' ', 'b'));
  EXPECT_THAT(encode_pair(gpt2, "", " b").ids, ElementsAre(256, ' ', 'b'));
  EXPECT_EQ(encode_pair(gpt2, "", " b").scored, 2);
  EXPECT_THAT(encode_pair(gpt2, "a", " b", ChoicePrefix::kSeparator).ids, ElementsAre(256, 'a', ' ', 'b'));
  EXPECT_THAT(encode_pair(llama, "a", " b", ChoicePrefix::kSeparator).ids, ElementsAre(256, 'a', ' ', 'b'));
  EXPECT_THAT(encode_pair(llama, "a", " b", ChoicePrefix::kNone).ids, ElementsAre('a', ' ', 'b'));
  EXPECT_THAT(encode_pair(data::Tokenizer::bytes(), "a", " b").ids, ElementsAre(256, 'a', ' ', 'b'))
      << "a tokenizer made here";
  const data::Tokenizer nothing = data::bytes_with("<other>", {});
  EXPECT_THAT(encode_pair(nothing, "a", " b").ids, ElementsAre('a', ' ', 'b'));
  EXPECT_EQ(data::error_of([&] { encode_pair(nothing, "", "b"); }).code(), ExitCode::kData);
}

// ": yes" is one token, so that nothing is left behind "Q:" to be scored; an empty sum would be the largest.
TEST(Choice, ATokenOverTheJoinIsScoredFromWhereItBegins) {
  const data::Tokenizer tokenizer = data::bytes_with("</s>", {"<s>", ": yes"}, {"<s>"});
  ChoiceItem item{.contexts = {"Q:"}, .continuations = {" yes", " no"}, .choices = {"yes", "no"}, .gold = 1};
  const std::vector<EncodedPair> pairs = encode_choices(tokenizer, item, ChoicePrefix::kTemplate);
  EXPECT_THAT(pairs[0].ids, ElementsAre(257, 'Q', 258));
  EXPECT_EQ(pairs[0].scored, 1);
  EXPECT_THAT(pairs[1].ids, ElementsAre(257, 'Q', ':', ' ', 'n', 'o'));
  EXPECT_EQ(pairs[1].scored, 4) << "the same stretch of text as the other choice";
  ByBytes answers;  // −6 for 258, and −2 for ':', −4 for ' ', 0 for 'b'
  item.continuations[1] = " b";
  item.gold = 0;
  EXPECT_EQ(score_choices(answers, tokenizer, {item}).acc, 1) << "of equals the first";
  item.contexts = {"Qb:"};
  item.continuations = {" b", " yes"};
  item.gold = 0;
  EXPECT_EQ(score_choices(answers, tokenizer, {item}).acc, 1);
  // Without such a token only what stands behind the context counts, as before.
  const data::Tokenizer plain = data::bytes_with("</s>", {"<s>"}, {"<s>"});
  EXPECT_EQ(encode_choices(plain, item, ChoicePrefix::kTemplate)[0].scored, 2);
  item.continuations = {" yes", ""};
  item.where = "q.jsonl:7";
  EXPECT_THAT(data::error_of([&] { encode_choices(plain, item, ChoicePrefix::kTemplate); }).what(),
              HasSubstr("q.jsonl:7"));
}

// The separator, three bytes and two of the choice are six ids, five of them inputs.
TEST(Choice, WhatIsLongerThanThePositionsIsScoredByItsEnd) {
  ByBytes answers;
  const std::vector<ChoiceItem> items = {
      {.contexts = {"xyz"}, .continuations = {" b", " a"}, .choices = {"b", "a"}, .gold = 0, .where = "q:1"},
      {.contexts = {"x"}, .continuations = {" b", " a"}, .choices = {"b", "a"}, .gold = 0, .where = "q:2"}};
  for (const auto& [positions, cut] : {std::pair{0, 0}, {5, 0}, {4, 1}, {3, 1}, {2, 2}}) {
    const ChoiceResult result =
        score_choices(answers, data::Tokenizer::bytes(), items, {.positions = positions});
    EXPECT_EQ(result.cut, cut) << positions;
    EXPECT_EQ(result.acc, 1) << positions;
  }
  EXPECT_THAT(data::error_of([&] {
                score_choices(answers, data::Tokenizer::bytes(), items, {.positions = 1});
              }).what(),
              HasSubstr("q:1"));
}

// " b" −4, " ccccc" −9: by character −4 and −1.8; " bb" and " a": the first by both.
TEST(Choice, ErrorsAreThoseOfTheirOwnMeans) {
  ByBytes answers;
  const std::vector<ChoiceItem> items = {{{"x"}, {" b", " ccccc"}, {"b", "ccccc"}, 1},
                                         {{"x"}, {" bb", " a"}, {"bb", "a"}, 0}};
  const ChoiceResult result = score_choices(answers, data::Tokenizer::bytes(), items);
  EXPECT_DOUBLE_EQ(result.acc, 0.5);
  EXPECT_DOUBLE_EQ(result.acc_norm, 1);
  EXPECT_DOUBLE_EQ(result.acc_error, 0.5);
  EXPECT_DOUBLE_EQ(result.acc_norm_error, 0);
}

// Knows what each text is worth.
class ByTable final : public Answers {
 public:
  void add(const std::string& context, const std::string& continuation, double log_probability) {
    const auto [place, fresh] =
        table_.emplace(encode_pair(data::Tokenizer::bytes(), context, continuation).ids, log_probability);
    EXPECT_TRUE(fresh || place->second == log_probability) << continuation << " has two values";
  }
  std::vector<std::vector<Judged>> judge(std::span<const Passage> passages) override {
    std::vector<std::vector<Judged>> result;
    for (const Passage& passage : passages) {
      std::vector<int64_t> text = passage.ids;
      text.push_back(passage.targets.back().id);
      result.emplace_back(passage.targets.size(), Judged{.log_probability = 0, .predicted = 0});
      result.back().front().log_probability = table_.at(text);
    }
    return result;
  }
  std::vector<int64_t> complete(std::span<const int64_t>, int64_t, std::span<const int64_t>) override {
    return {};
  }

 private:
  std::map<std::vector<int64_t>, double> table_;
};

// What lm-evaluation-harness itself made of these log-probabilities (tests/golden/make_choice_golden.py says
// which version).
TEST(Choice, JudgesAsTheHarnessDoes) {
  const auto golden = nlohmann::json::parse(
      read_text(std::filesystem::path(source_folder()) / "tests" / "golden" / "choice.json"));
  const TemporaryFolder folder;
  ByTable answers;
  std::string lines;
  for (const auto& item : golden["items"]) {
    lines +=
        nlohmann::json{{"context", item["context"]}, {"choices", item["choices"]}, {"gold", item["gold"]}}
            .dump() +
        "\n";
    for (size_t c = 0; c < item["choices"].size(); ++c) {
      const auto continuation = item["continuations"][c].get<std::string>();
      answers.add(item["context"], continuation, item["conditional"][c]);
      answers.add("", continuation, item["unconditional"][c]);
    }
  }
  data::write_file(folder / "items.jsonl", lines);
  const std::vector<ChoiceItem> items = read_choices(folder / "items.jsonl", "longhaul");
  ASSERT_EQ(items.size(), golden["items"].size());
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& expected = golden["items"][i];
    EXPECT_EQ(items[i].continuations, expected["continuations"].get<std::vector<std::string>>());
    const ChoiceResult one = score_choices(answers, data::Tokenizer::bytes(), {items[i]});
    const double found[] = {one.acc, one.acc_norm, one.acc_bytes, one.acc_mutual_info};
    const char* const names[] = {"acc", "acc_norm", "acc_bytes", "acc_mutual_info"};
    for (size_t m = 0; m < 4; ++m)
      EXPECT_EQ(found[m], expected[names[m]].get<double>()) << names[m] << " of " << expected["context"];
  }
  const ChoiceResult all = score_choices(answers, data::Tokenizer::bytes(), items);
  const auto& results = golden["results"];
  EXPECT_DOUBLE_EQ(all.acc, results["acc"]);
  EXPECT_DOUBLE_EQ(all.acc_norm, results["acc_norm"]);
  EXPECT_DOUBLE_EQ(all.acc_bytes, results["acc_bytes"]);
  EXPECT_DOUBLE_EQ(all.acc_mutual_info, results["acc_mutual_info"]);
  EXPECT_NEAR(all.acc_error, results["acc_stderr"].get<double>(), 1e-15);
  EXPECT_NEAR(all.acc_norm_error, results["acc_norm_stderr"].get<double>(), 1e-15);
}

TEST(Choice, WhoGuessesIsRightByChance) {
  std::vector<ChoiceItem> items(2000, {{"question"}, {" a", " b", " c", " d"}, {"a", "b", "c", "d"}, 2});
  Guess guess(0, 257);
  const ChoiceResult result = score_choices(guess, data::Tokenizer::bytes(), items);
  EXPECT_NEAR(result.acc, 0.25, 4 * std::sqrt(0.25 * 0.75 / 2000));
  EXPECT_NEAR(result.acc_mutual_info, 0.25, 4 * std::sqrt(0.25 * 0.75 / 2000));
}

class ChoiceFiles : public ::testing::Test {
 protected:
  ChoiceItem only(const std::string& line, const std::string& format) {
    const auto file = folder_ / "q.jsonl";
    data::write_file(file, line + "\n\n");
    EXPECT_EQ(format_by_fields(file), format);
    const auto items = read_choices(file, format);
    EXPECT_EQ(items.size(), 1u);
    return items.at(0);
  }
  TemporaryFolder folder_;
};

// Expected texts: the harness's templates applied by hand.
TEST_F(ChoiceFiles, AreReadAsTheHarnessReadsThem) {
  const ChoiceItem hella = only(
      R"({"ind":1,"activity_label":"Roof shingle removal","ctx_a":"A man is sitting on a roof.","ctx_b":"he starts  Pulling","endings":["is [title] up.","[step] rips  a level"," c","d"],"label":"3"})",
      "hellaswag");
  EXPECT_EQ(hella.contexts.at(0), "Roof shingle removal: A man is sitting on a roof. He starts pulling");
  EXPECT_THAT(hella.choices, ElementsAre("is. up.", " rips a level", "c", "d"));
  EXPECT_THAT(hella.continuations.at(1), "  rips a level");
  EXPECT_EQ(hella.gold, 3);
  const ChoiceItem arc = only(
      R"({"id":"x","question":"Which is red?","choices":{"text":["sky","blood"],"label":["A","B"]},"answerKey":"B"})",
      "arc");
  EXPECT_EQ(arc.contexts.at(0), "Question: Which is red?\nAnswer:");
  EXPECT_THAT(arc.continuations, ElementsAre(" sky", " blood"));
  EXPECT_EQ(arc.gold, 1);
  const ChoiceItem piqa = only(R"({"goal":"Open it.","sol1":"pull","sol2":"push","label":0})", "piqa");
  EXPECT_EQ(piqa.contexts.at(0), "Question: Open it.\nAnswer:");
  EXPECT_THAT(piqa.choices, ElementsAre("pull", "push"));
  const ChoiceItem mmlu =
      only(R"({"question":" What? ","subject":"high_school_biology","choices":["w","x","y","z"],"answer":2})",
           "mmlu");
  EXPECT_EQ(mmlu.contexts.at(0),
            "The following are multiple choice questions (with answers) about high school "
            "biology.\n\nWhat?\nA. w\nB. x\nC. y\nD. z\nAnswer:");
  EXPECT_THAT(mmlu.continuations, ElementsAre(" A", " B", " C", " D"));
  EXPECT_EQ(mmlu.gold, 2);
  const ChoiceItem book = only(
      R"({"question_stem":"The sun","choices":{"text":["sets","sits"],"label":["A","B"]},"answerKey":" A"})",
      "openbookqa");
  EXPECT_EQ(book.contexts.at(0), "The sun");
  EXPECT_EQ(book.gold, 0);
  const ChoiceItem wino =
      only(R"({"sentence":"Ann beat Bea because _ was fast.","option1":"Ann","option2":"Bea","answer":"1"})",
           "winogrande");
  EXPECT_THAT(wino.contexts, ElementsAre("Ann beat Bea because Ann", "Ann beat Bea because Bea"));
  EXPECT_THAT(wino.continuations, ElementsAre(" was fast.", " was fast."));
  EXPECT_EQ(wino.gold, 0);
  const ChoiceItem boolq = only(R"({"question":"is it so","passage":"It is.","label":1})", "boolq");
  EXPECT_EQ(boolq.contexts.at(0), "It is.\nQuestion: is it so?\nAnswer:");
  EXPECT_THAT(boolq.choices, ElementsAre("no", "yes"));
  EXPECT_EQ(only(R"({"context":"a","choices":["b","c"],"gold":1})", "longhaul").gold, 1);
}

TEST_F(ChoiceFiles, AByteOrderMarkIsNoPartOfTheFirstQuestion) {
  EXPECT_EQ(only("\xef\xbb\xbf{\"context\":\"a\",\"choices\":[\"b\",\"c\"],\"gold\":1}\r", "longhaul").gold,
            1);
}

TEST_F(ChoiceFiles, BadLinesAreNamed) {
  const auto refused = [&](const std::string& line, const std::string& format) {
    data::write_file(folder_ / "bad.jsonl", R"({"context":"a","choices":["b","c"],"gold":1})"
                                            "\n" +
                                                line + "\n");
    const Error error = data::error_of([&] { read_choices(folder_ / "bad.jsonl", format); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    return std::string(error.what());
  };
  EXPECT_THAT(refused("{", "longhaul"), HasSubstr("bad.jsonl:2"));
  EXPECT_THAT(refused(R"({"context":"a","choices":["b","c"],"gold":2})", "longhaul"),
              HasSubstr("one of the choices"));
  EXPECT_THAT(refused(R"({"context":"a","choices":["b"],"gold":0})", "longhaul"), HasSubstr("two choices"));
  EXPECT_THAT(refused(R"({"context":"a","choices":["b",""],"gold":0})", "longhaul"), HasSubstr("not empty"));
  EXPECT_THAT(refused(R"({"context":3,"choices":["b","c"],"gold":0})", "longhaul"), HasSubstr("context"));
  data::write_file(folder_ / "other.jsonl", "{\"a\":1}\n");
  EXPECT_EQ(data::error_of([&] { format_by_fields(folder_ / "other.jsonl"); }).code(), ExitCode::kData);
  data::write_file(folder_ / "empty.jsonl", "\n");
  EXPECT_EQ(data::error_of([&] { format_by_fields(folder_ / "empty.jsonl"); }).code(), ExitCode::kData);
}

}  // namespace
}  // namespace longhaul::evaluate
