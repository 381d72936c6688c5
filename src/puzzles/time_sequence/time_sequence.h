// Time sequence: when can some people meet for longest, and how many starts are there for that? A week of
// five days from 9:00 to 17:00; for each person and day either the times that are taken or those that are
// free, and a rule of some people. given: {"people": [{"name": "Alice", "rule": "rest_after", "days":
// [{"busy": true, "times": [[0, 6], …]}, …]}, …], "records": {"answers": {"answer_maxLen": 55, "answer_nums":
// 2}}}; times are slots of five minutes from 9:00, begin and end. The public verifier reads the records.
// Source: docs/puzzles.md#time_sequence.
#pragma once

#include <array>
#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "puzzles/task.h"

namespace longhaul::puzzles::time_sequence {

inline constexpr int64_t kDays = 5, kSlots = 96;  // a day, in slots of five minutes

enum class Rule : uint8_t {
  kNone,
  kRestAfter,        // ten minutes after each commitment are taken
  kRestBefore,       // ten minutes before
  kEndsBy16,         // nothing after 16:00
  kLunchWednesday,   // 12:30 to 13:00 on Wednesday is taken
  kCancelsEarly,     // commitments that lie within 9:00 to 9:45 fall away
  kClockAhead,       // the calendar's clock is an hour ahead
  kTuesdayThursday,  // only on these days, at most 60 minutes
  kCancelsShort,     // commitments of at most 30 minutes fall away
  kCancelsShortest,  // of at most 10 minutes
  kTuesdayFriday,    // only on these days, at most 30 minutes
};
inline constexpr int kRules = 11;
std::string_view name_of(Rule rule);  // "rest_after"; "" of kNone

struct Times {
  bool busy = true;  // else what is listed is free
  std::vector<std::pair<int64_t, int64_t>> times;
};
struct Person {
  std::string_view name;  // of our table, or of the given that it was read from
  Rule rule = Rule::kNone;
  std::array<Times, kDays> days;
};

struct Longest {
  int64_t minutes = 0, starts = 0;  // both 0: there is no meeting
  bool operator==(const Longest&) const = default;
};
std::bitset<kSlots> taken_of(const Person& person, int64_t day);
Longest longest_meeting(const std::vector<Person>& people);

std::vector<Person> read_people(const nlohmann::json& given);
std::string prompt(const nlohmann::json& given, Language language, int64_t which);
extern const TaskEntry kTask;

}  // namespace longhaul::puzzles::time_sequence
