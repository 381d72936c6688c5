// What a model must not get a reward for: the holes of public verifiers, answers that attack the reader, and
// two answers in one. And what it must get one for: a right answer in any of the usual shells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "puzzles/changed_answers.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/maker.h"
#include "puzzles/records.h"
#include "puzzles/score.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

std::vector<MadePuzzle> puzzles_of_task(const TaskEntry& task) {
  std::vector<MadePuzzle> all;
  for (int64_t index = 0; index < 4; ++index)
    all.push_back(make_puzzle(task, at_level(task.knobs, 1 + 2 * index), 21, index).value());
  return all;
}

// A grid in which every blank holds `filling`.
std::string with_blanks(const nlohmann::json& grid, const nlohmann::json& filling) {
  nlohmann::json filled = grid;
  for (auto& row : filled) {
    for (auto& cell : row) {
      if (cell == "X" || cell == 0) cell = filling;
    }
  }
  return filled.dump();
}

std::string joined(const nlohmann::json& numbers, const std::string& sign) {
  std::string text;
  for (const auto& number : numbers) text += (text.empty() ? "" : sign) + number.dump();
  return text;
}

using Answers = std::vector<std::string>;
using Hacks = std::function<Answers(const Puzzle&)>;

// Answers that public verifiers accept though they are wrong (docs/puzzles.md#holes-of-public-verifiers), by
// task.
const std::map<std::string, Hacks>& hacks() {
  static const std::map<std::string, Hacks> all = {
      {"mathador",
       [](const Puzzle& puzzle) {
         const auto& numbers = puzzle.given["numbers"];
         Answers answers = {joined(numbers, "//"), joined(numbers, "**"), joined(numbers, "+") + " or(True)",
                            "24", puzzle.solution + "+0"};
         int64_t sum = 0;
         for (const auto& number : numbers) sum += number.get<int64_t>();
         if (puzzle.given["result"] != sum) answers.push_back(joined(numbers, " + "));
         return answers;
       }},
      {"math_path",
       [](const Puzzle& puzzle) {
         const std::string expression = puzzle.given["ref_expr"].get<std::string>();
         return Answers{"[[" + expression + " or(True)]]", "[[" + expression + "or(True)]]",
                        "[[(" + expression + ")]]", "[[1 = 1]]"};
       }},
      {"norinori",
       [](const Puzzle&) {
         return Answers{"[]", "[[]]", "[[(1,1),(1,1)]]"};
       }},
      {"arrow_maze",
       [](const Puzzle& puzzle) {
         return Answers{with_blanks(puzzle.given["maze"], "0"), with_blanks(puzzle.given["maze"], 0)};
       }},
      {"number_wall",
       [](const Puzzle& puzzle) {
         return Answers{with_blanks(puzzle.given["grid"], 1), with_blanks(puzzle.given["grid"], "X")};
       }},
      {"wordscapes",
       [](const Puzzle& puzzle) {
         return Answers{with_blanks(puzzle.given["grid"], "A"), with_blanks(puzzle.given["grid"], "")};
       }},
      {"dyck_language_errors",
       [](const Puzzle&) {
         return Answers{"valid", "invalid", "The sequence is valid.", "-"};
       }},
      {"boolean_expressions",
       [](const Puzzle&) {
         return Answers{"A,B,C,D,E,F,G,H,I", "Z", "True", "\\boxed{}"};
       }},
  };
  return all;
}

TEST(PuzzleHacks, ThatPublicVerifiersAcceptScoreNothing) {
  for (const TaskEntry* task : tasks()) {
    for (const MadePuzzle& made : puzzles_of_task(*task)) {
      Answers answers = {"__import__('os').system('true')",
                         "[[__import__('os').system('true')]]",
                         "[x for x in range(987654)]",
                         "lambda: 987654",
                         "True",
                         "eval('987654')"};
      if (const auto found = hacks().find(std::string(task->key)); found != hacks().end()) {
        for (const std::string& answer : found->second(made.puzzle)) answers.push_back(answer);
      }
      for (const std::string& answer : answers) {
        const ReadRecord record{.task = task, .given = made.puzzle.given};
        const std::string response = "<think>t</think><answer>" + answer + "</answer>";
        EXPECT_EQ(score_of(response, verdict_on(record, response)).reward(), 0)
            << task->key << " rewards " << answer << " of " << made.puzzle.given.dump();
      }
    }
  }
}

TEST(PuzzleHacks, AttacksOnTheReaderAreRefusedAndNothingThrows) {
  const std::string nested = std::string(10'000, '[') + std::string(10'000, ']'), round(10'000, '(');
  const std::string nul("\0[[1]]\0", 7);
  std::string braces;
  for (int i = 0; i < 5000; ++i) braces += "\\boxed{";
  for (const TaskEntry* task : tasks()) {
    const MadePuzzle made = puzzles_of_task(*task).front();
    const ReadRecord record{.task = task, .given = made.puzzle.given};
    for (const std::string& answer :
         {nested, round, nul, braces, std::string("٣"), std::string("三"), std::string("\xED\xA0\x80"),
          std::string("[[\"\\u0000\"]]"), std::string("\xEF\xBC"), std::string(8000, ',')}) {
      const std::string response = "<think>t</think><answer>" + answer + "</answer>";
      EXPECT_FALSE(verdict_on(record, response).accepted()) << task->key << ": " << answer.substr(0, 20);
    }
    // A NUL byte in a right answer makes it another one, but for a number, which counts alone.
    std::string split = made.puzzle.solution;
    split.insert(split.size() / 2, 1, '\0');
    EXPECT_TRUE(read_integer(made.puzzle.solution) || !task->verify(made.puzzle.given, split).accepted())
        << task->key;
  }
}

TEST(PuzzleHacks, AnAnswerOf64MegabytesIsNone) {
  const TaskEntry& task = task_named("sudoku");
  const MadePuzzle made = puzzles_of_task(task).front();
  const ReadRecord record{.task = &task, .given = made.puzzle.given};
  const std::string large(64 << 20, '1');
  EXPECT_EQ(verdict_on(record, "<think>t</think><answer>" + large + "</answer>").code,
            VerdictCode::kNoPayload);
  // A long thought is no reason to refuse the answer after it.
  EXPECT_TRUE(verdict_on(record, "<think>" + large + "</think><answer>" + made.puzzle.solution + "</answer>")
                  .accepted());
}

TEST(PuzzleShells, OfRightAnswersAreTaken) {
  for (const TaskEntry* task : tasks()) {
    for (const MadePuzzle& made : puzzles_of_task(*task)) {
      const ReadRecord record{.task = task, .given = made.puzzle.given};
      const std::string& right = made.puzzle.solution;
      for (const std::string& answer :
           {right, "\n  " + right + " \n", "```python\n" + right + "\n```", "```\n" + right + "\n```",
            "\\boxed{" + right + "}", "\\boxed{\\text{" + right + "}}", in_wide_characters(right)}) {
        const std::string response = "<think>t</think><answer>" + answer + "</answer>";
        EXPECT_TRUE(verdict_on(record, response).accepted()) << task->key << " refuses " << answer;
        EXPECT_EQ(score_of(response, verdict_on(record, response)).reward(), 1);
      }
    }
  }
}

TEST(PuzzleShells, TheLastOfTwoAnswersCounts) {
  for (const TaskEntry* task : tasks()) {
    const MadePuzzle made = puzzles_of_task(*task).front();
    const ReadRecord record{.task = task, .given = made.puzzle.given};
    const std::string right = "<answer>" + made.puzzle.solution + "</answer>",
                      wrong = "<answer>[[987654]]</answer>";
    const auto verdict = [&](const std::string& response) { return verdict_on(record, response).accepted(); };
    EXPECT_TRUE(verdict("<think>" + wrong + "</think>" + right)) << task->key;
    EXPECT_TRUE(verdict("<think>t</think>" + wrong + right)) << task->key;
    EXPECT_FALSE(verdict("<think>t</think>" + right + wrong)) << task->key;
    EXPECT_FALSE(verdict("<think>" + right + "</think>" + wrong)) << task->key;
    EXPECT_FALSE(verdict("<think>" + right + "</think>")) << task->key;
    // A reward needs the format, too.
    const std::string two = "<think>t</think>" + wrong + right;
    EXPECT_EQ(score_of(two, verdict_on(record, two)).reward(), 0);
  }
}

}  // namespace
}  // namespace longhaul::puzzles
