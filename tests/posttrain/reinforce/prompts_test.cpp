#include "posttrain/reinforce/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "support/refused.h"

namespace longhaul::posttrain {
namespace {

using ::longhaul::testing::refused;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PromptsOfARun : public ::testing::Test {
 protected:
  ReinforceOptions of_file(const std::string& text) const {
    write_text_atomically(folder_ / "prompts.jsonl", text);
    ReinforceOptions options;
    options.prompts_file = (folder_ / "prompts.jsonl").string();
    options.reward = {{"exact", 1}};
    options.prompts = options.updates = 1;
    return options;
  }
  static ReinforceOptions of_puzzles(std::vector<std::string> puzzles) {
    ReinforceOptions options;
    options.puzzles = std::move(puzzles);
    options.reward = {{"puzzle", 1}};
    return options;
  }
  std::string told(const ReinforceOptions& options, int64_t longest = 4096) const {
    return refused([&] { Prompts(options, tokenizer_, longest).prompt(0); });
  }
  TemporaryFolder folder_;
  data::Tokenizer tokenizer_ = data::Tokenizer::bytes();
};

TEST_F(PromptsOfARun, EveryLineComesOnceInEachPass) {
  const Prompts prompts(of_file("{\"prompt\":\"a\",\"answer\":\"1\"}\n\n{\"prompt\":\"b\",\"completion\":"
                                "\"2\",\"task\":\"second\"}\n"
                                "{\"prompt\":\"c\",\"answer\":\"3\"}\n"),
                        tokenizer_, 100);
  for (int64_t pass = 0; pass < 4; ++pass) {
    std::set<std::string> texts;
    for (int64_t i = 0; i < 3; ++i) texts.insert(prompts.prompt(3 * pass + i).text);
    EXPECT_THAT(texts, ElementsAre("a", "b", "c"));
  }
  EXPECT_THAT(prompts.tasks(), ElementsAre("prompts", "second"));
  EXPECT_EQ(prompts.held_out(1).answer, "2");
  EXPECT_THAT(prompts.prompt(0).ids.front(), 256) << "what begins a text stands before it";
}

TEST_F(PromptsOfARun, AFileThatCannotBeUsedIsRefusedWithItsLine) {
  EXPECT_THAT(told(of_file("{\"prompt\":\"a\",\"answer\":\"1\"}\n{\"prompt\":\"b\"}\n")),
              AllOf(HasSubstr("a prompt has no answer to compare with"), HasSubstr("prompts.jsonl:2")));
  EXPECT_THAT(told(of_file("{\"answer\":\"1\"}\n")), HasSubstr("prompts.jsonl:1"));
  EXPECT_THAT(told(of_file("{\"prompt\":\n")), HasSubstr("prompts.jsonl:1"));
  EXPECT_THAT(told(of_file("\n")), HasSubstr("a file of prompts has none"));
  ReinforceOptions many = of_file("{\"prompt\":\"a\",\"answer\":\"1\"}\n");
  many.prompts = 2;
  EXPECT_THAT(told(many),
              AllOf(HasSubstr("asks for more prompts than there are"), HasSubstr("at least 2 prompts")));
  EXPECT_THAT(told(of_file("{\"prompt\":\"much too long\",\"answer\":\"1\"}\n"), 10),
              HasSubstr("do not fit into a row"));
  // A program may know the answer by itself.
  ReinforceOptions judged = of_file("{\"prompt\":\"a\"}\n");
  judged.reward = {{"program", 1}};
  EXPECT_EQ(told(judged), "accepted");
}

TEST_F(PromptsOfARun, PuzzlesAreMadeByTheirNumber) {
  const Prompts prompts(of_puzzles({"dyck_language:1", "word_sorting"}), tokenizer_, 4096);
  EXPECT_EQ(prompts.prompt(4).task, "dyck_language");
  EXPECT_EQ(prompts.prompt(4).level, 1);
  EXPECT_EQ(prompts.prompt(5).task, "word_sorting");
  EXPECT_EQ(prompts.prompt(5).text, prompts.prompt(5).text);
  EXPECT_NE(prompts.prompt(5).text, prompts.prompt(7).text);
  EXPECT_NE(prompts.prompt(4).text, prompts.held_out(4).text);
  EXPECT_EQ(prompts.again(4, 1).text, prompts.prompt(4).text);
  EXPECT_EQ(prompts.held_out_count(), 0);
}

TEST_F(PromptsOfARun, KnobsAndLevelsThatThereAreNotAreRefused) {
  EXPECT_THAT(told(of_puzzles({"sudoko"})), HasSubstr("sudoku"));
  EXPECT_THAT(told(of_puzzles({"sudoku:11"})), HasSubstr("no such level"));
  EXPECT_THAT(told(of_puzzles({"sudoku:x"})), HasSubstr("no such level"));
  ReinforceOptions options = of_puzzles({"dyck_language"});
  options.knobs = "length=4,missing=1,kinds=1";
  EXPECT_EQ(told(options), "accepted");
  options.knobs = "length";
  EXPECT_THAT(told(options), HasSubstr("a knob is no NAME=NUMBER"));
  options.knobs = "lenght=4";
  EXPECT_THAT(told(options), HasSubstr("length"));
}

TEST_F(PromptsOfARun, LevelsFollowAMixture) {
  const Prompts prompts(of_puzzles({"word_sorting"}), tokenizer_, 4096);
  puzzles::LevelMixture levels(0);
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(prompts.prompt(i, &levels).level, 0) << "no other is open";
  levels.add("word_sorting", 0, {.answers = 128, .accepted = 120});
  std::set<int64_t> met;
  for (int64_t i = 0; i < 40; ++i) met.insert(prompts.prompt(i, &levels).level);
  EXPECT_THAT(met, ElementsAre(0, 1));
}

TEST_F(PromptsOfARun, AnInstructionStandsAroundThem) {
  ReinforceOptions options = of_file("{\"prompt\":\"a\",\"answer\":\"1\"}\n");
  options.instruction = "Question: {prompt} Answer:";
  EXPECT_EQ(Prompts(options, tokenizer_, 100).prompt(0).text, "Question: a Answer:");
  options.instruction = "Question:";
  EXPECT_THAT(told(options), HasSubstr("{prompt}"));
}

}  // namespace
}  // namespace longhaul::posttrain
