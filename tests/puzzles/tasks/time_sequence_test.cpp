// Time sequence: calendars by hand for each rule, and the answers that are read.
#include <gtest/gtest.h>

#include "puzzles/maker.h"
#include "puzzles/time_sequence/time_sequence.h"

namespace longhaul::puzzles {
namespace {

using time_sequence::kDays;
using time_sequence::kSlots;
using time_sequence::Longest;
using time_sequence::longest_meeting;
using time_sequence::Person;
using time_sequence::Rule;
using time_sequence::taken_of;

// On every day the same times.
Person person(bool busy, std::vector<std::pair<int64_t, int64_t>> times, Rule rule = Rule::kNone) {
  Person one{.name = "Alice", .rule = rule};
  for (auto& day : one.days) day = {.busy = busy, .times = times};
  return one;
}

std::string taken(const Person& one, int64_t day = 0) {  // "0-12 20-96"
  const auto slots = taken_of(one, day);
  std::string text;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (!slots[slot] || (slot > 0 && slots[slot - 1])) continue;
    size_t end = slot;
    while (end < kSlots && slots[end]) ++end;
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", slot, end);
  }
  return text;
}

TEST(TimeSequence, RulesTakeAndGiveTime) {
  EXPECT_EQ(taken(person(true, {{12, 24}})), "12-24");
  EXPECT_EQ(taken(person(false, {{12, 24}})), "0-12 24-96");
  EXPECT_EQ(taken(person(true, {{12, 24}, {90, 96}}, Rule::kRestAfter)), "12-26 90-96");
  EXPECT_EQ(taken(person(false, {{12, 24}}, Rule::kRestAfter)), "0-14 24-96");
  EXPECT_EQ(taken(person(true, {{1, 3}, {12, 24}}, Rule::kRestBefore)), "0-3 10-24");
  EXPECT_EQ(taken(person(true, {{12, 24}}, Rule::kEndsBy16)), "12-24 84-96");
  EXPECT_EQ(taken(person(true, {{12, 24}}, Rule::kLunchWednesday), 2), "12-24 42-48");
  EXPECT_EQ(taken(person(true, {{12, 24}}, Rule::kLunchWednesday), 3), "12-24");
  EXPECT_EQ(taken(person(true, {{0, 9}, {8, 10}, {20, 22}}, Rule::kCancelsEarly)), "8-10 20-22");
  EXPECT_EQ(taken(person(true, {{6, 24}}, Rule::kClockAhead)), "0-12 84-96");
  EXPECT_EQ(taken(person(false, {{6, 24}}, Rule::kClockAhead)), "12-96");
  EXPECT_EQ(taken(person(true, {{0, 6}, {10, 17}}, Rule::kCancelsShort)), "10-17");
  EXPECT_EQ(taken(person(true, {{0, 2}, {10, 13}}, Rule::kCancelsShortest)), "10-13");
}

TEST(TimeSequence, TheLongestMeetingByHand) {
  EXPECT_EQ(longest_meeting({person(true, {})}), (Longest{480, 5}));  // the whole of each day
  EXPECT_EQ(longest_meeting({person(true, {{0, 96}})}), (Longest{0, 0}));
  // from 9:30 to 10:40
  EXPECT_EQ(longest_meeting({person(false, {{5, 20}})}), (Longest{70, 5}));
  // no full or half hour in it
  EXPECT_EQ(longest_meeting({person(false, {{7, 11}})}), (Longest{0, 0}));
  // any start of two days
  EXPECT_EQ(longest_meeting({person(true, {}, Rule::kTuesdayFriday)}), (Longest{30, 32}));
  // not the last half hour
  EXPECT_EQ(longest_meeting({person(true, {}, Rule::kTuesdayThursday)}), (Longest{60, 30}));
  EXPECT_EQ(
      longest_meeting({person(true, {}, Rule::kTuesdayThursday), person(true, {}, Rule::kTuesdayFriday)}),
      (Longest{30, 16}));
  EXPECT_EQ(longest_meeting({person(false, {{0, 12}}), person(false, {{6, 18}})}), (Longest{30, 5}));
}

TEST(TimeSequence, AnswersAreTwoNumbers) {
  const TaskEntry& task = time_sequence::kTask;
  // as in public data
  const nlohmann::json given = {{"records", {{"answers", {{"answer_maxLen", 55}, {"answer_nums", 2}}}}}};
  for (const char* good : {"[55, 2]", "55, 2", "(55,2)"})
    EXPECT_TRUE(task.verify(given, good).accepted()) << good;
  for (const char* bad :
       {"[2, 55]", "[55]", "[55, 2, 2]", "[[55, 2]]", "55", "['55', 2]", "[55, 3]", "[0, 0]"})
    EXPECT_FALSE(task.verify(given, bad).accepted()) << bad;
}

TEST(TimeSequence, NoAnswerIsCommon) {
  const TaskEntry& task = time_sequence::kTask;
  for (const int64_t level : {0, 5, 10}) {
    std::map<std::string, int> answers;
    for (int64_t index = 0; index < 150; ++index)
      ++answers[make_puzzle(task, at_level(task.knobs, level), 1, index)->puzzle.solution];
    for (const auto& [answer, count] : answers) EXPECT_LE(count, 45) << answer << " at level " << level;
  }
}

}  // namespace
}  // namespace longhaul::puzzles
