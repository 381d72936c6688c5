// Web of lies: kinds beside trying all of them, statements by hand, and the answers that are read.
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "puzzles/maker.h"
#include "puzzles/web_of_lies/web_of_lies.h"

namespace longhaul::puzzles {
namespace {

using web_of_lies::decided_kinds;
using web_of_lies::Given;
using web_of_lies::Statement;

// What each statement means, in the words of the task: its speaker tells the truth just if it is so.
bool holds(const Statement& one, uint32_t kinds) {
  const auto is = [&](size_t i) { return (kinds >> one.people[i] & 1) != 0; };
  if (one.kind == "says") return is(0) == (is(1) == one.yes);
  if (one.kind == "tells") return is(0) == one.yes;
  if (one.kind == "same") return is(0) == ((is(0) == is(1)) == one.yes);
  if (one.kind == "one_of") return is(0) == (one.yes ? is(1) || is(2) : !is(1) && !is(2));
  return true;
}

TEST(WebOfLies, KindsAreThoseThatAllWaysShare) {
  const TaskEntry& task = web_of_lies::kTask;
  const KnobValues knobs =
      with_changes(task.knobs, at_level(task.knobs, 0),
                   {{"people", 8}, {"asked", 1}, {"extended_percent", 50}, {"depth", 3}});
  int64_t undecided = 0, impossible = 0;
  for (int64_t index = 0; index < 150; ++index) {
    Given puzzle = web_of_lies::read_given(make_puzzle(task, knobs, 2, index)->puzzle.given);
    Draw draw({.task = "spoils", .index = static_cast<uint64_t>(index)});
    for (int64_t i = draw.between(0, 5); i > 0; --i)
      puzzle.statements.erase(puzzle.statements.begin() +
                              static_cast<int64_t>(draw.below(puzzle.statements.size())));
    if (draw.chance(30)) draw.pick(puzzle.statements).yes ^= true;
    uint32_t always = 255, ever = 0;
    bool any = false;
    for (uint32_t kinds = 0; kinds < 256; ++kinds) {
      bool all = true;
      for (const Statement& one : puzzle.statements) all = all && holds(one, kinds);
      if (!all) continue;
      any = true;
      always &= kinds;
      ever |= kinds;
    }
    const auto kinds = decided_kinds(puzzle);
    ASSERT_EQ(kinds.has_value(), any);
    impossible += any ? 0 : 1;
    for (size_t i = 0; any && i < 8; ++i) {
      const bool decided = (always >> i & 1) == (ever >> i & 1);
      undecided += decided ? 0 : 1;
      ASSERT_EQ((*kinds)[i].has_value(), decided) << index << " person " << i;
      if (decided) {
        EXPECT_EQ(*(*kinds)[i], (always >> i & 1) != 0);
      }
    }
  }
  EXPECT_GT(undecided, 100);  // the comparison saw both
  EXPECT_GT(impossible, 5);
}

TEST(WebOfLies, AnswersAreListsOfYesAndNo) {
  const TaskEntry& task = web_of_lies::kTask;
  const nlohmann::json given = {
      {"people", {"Alice", "Bob", "Carol"}},
      {"places", {"park", "zoo", "farm"}},
      {"statements", {{"tells", 0, false, 0}, {"says", 0, 1, false, 0}, {"says", 1, 2, false, 1}}},
      {"asked", {{1, false}, {2, true}}}};
  for (const char* good : {"yes, no", "**Yes,no**", "是, 否"})
    EXPECT_TRUE(task.verify(given, good).accepted()) << good;
  for (const char* bad :
       {"no, yes", "yes", "yes, no, no", "yes no", "yesterday, no", "yes, nothing", "", "**yes, no"})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
  nlohmann::json open = given;
  open["statements"].erase(0);  // nobody is known now
  EXPECT_THROW(task.verify(open, "yes, no"), Error);
}

TEST(WebOfLies, YesAndNoAreAsCommon) {
  const TaskEntry& task = web_of_lies::kTask;
  int64_t yes = 0, all = 0;
  for (int64_t index = 0; index < 150; ++index) {
    const auto made = make_puzzle(task, at_level(task.knobs, 4), 1, index);
    for (const char c : made->puzzle.solution) {
      yes += c == 'y' ? 1 : 0;
      all += c == 'y' || c == 'n' ? 1 : 0;
    }
  }
  EXPECT_GT(yes * 100, all * 42);
  EXPECT_LT(yes * 100, all * 58);
}

}  // namespace
}  // namespace longhaul::puzzles
