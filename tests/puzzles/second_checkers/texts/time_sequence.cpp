#include "puzzles/second_checkers/checkers.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace longhaul::puzzles {

namespace {

// What one person's lines say, in minutes from midnight.
struct PlainCalendar {
  std::array<std::vector<std::pair<int, int>>, 5> listed;
  std::array<bool, 5> busy{};
  std::string habit;
};

int plain_minute(const std::string& clock) {
  return std::stoi(clock) * 60 + std::stoi(clock.substr(clock.find(':') + 1));
}

// Every minute of every day, asked one by one.
bool plain_is_taken(const PlainCalendar& person, size_t day, int minute) {
  const bool ahead = person.habit.find("one hour ahead") != std::string::npos;
  const int own = ahead ? minute + 60 : minute;
  if (own < 9 * 60 || own >= 17 * 60) return true;
  const auto says = [&](const char* text) { return person.habit.find(text) != std::string::npos; };
  const auto committed = [&](int at) {
    bool inside = false;
    for (const auto& [begin, end] : person.listed[day]) {
      const bool falls_away = (says("wholly between 9:00 and 9:45") && begin >= 540 && end <= 585) ||
                              (says("of 30 minutes or less") && end - begin <= 30) ||
                              (says("of 10 minutes or less") && end - begin <= 10);
      inside = inside || (at >= begin && at < end && !falls_away);
    }
    return at >= 540 && at < 1020 && inside == person.busy[day];
  };
  bool taken = committed(own);
  for (int back = 1; back <= 10; ++back) {
    taken = taken || (says("rests for 10 minutes after") && committed(own - back));
    taken = taken || (says("10 minutes before each") && committed(own + back));
  }
  taken = taken || (says("by 16:00") && minute >= 960);
  return taken || (says("lunch on Wednesday") && day == 2 && minute >= 750 && minute < 780);
}

int plain_most_minutes(const PlainCalendar& person, size_t day) {
  if (person.habit.find("Tuesday and Thursday only") != std::string::npos)
    return day == 1 || day == 3 ? 60 : 0;
  if (person.habit.find("Tuesday and Friday only") != std::string::npos) return day == 1 || day == 4 ? 30 : 0;
  return 24 * 60;
}

}  // namespace

bool plain_time_sequence(const nlohmann::json& given, const std::string& text) {
  constexpr std::array kDayNames = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday"};
  std::vector<PlainCalendar> people;
  for (const std::string& line : plain_prompt_lines("time_sequence", given)) {
    const size_t comma = line.find(", ");
    const auto day = std::ranges::find(kDayNames, line.substr(0, comma)) - kDayNames.begin();
    if (comma != std::string::npos && day < 5) {
      if (day == 0) people.emplace_back();
      PlainCalendar& person = people.back();
      const auto at = static_cast<size_t>(day);
      person.busy[at] = line.substr(comma + 2, 4) == "busy";
      for (const std::string& time : plain_words(line.substr(line.find(": ") + 2), ','))
        person.listed[at].emplace_back(plain_minute(time), plain_minute(time.substr(time.find('-') + 1)));
      if (day == 4) person.habit = "?";
    } else if (!people.empty() && people.back().habit == "?") {
      people.back().habit = line;
    }
  }
  int longest = 0, starts = 0;
  for (size_t day = 0; day < 5; ++day) {
    for (int start = 0; start < 24 * 60; start += 30) {
      int length = 0;
      const auto goes_on = [&] {
        return start + length < 24 * 60 && std::ranges::all_of(people, [&](const PlainCalendar& person) {
                 return length < plain_most_minutes(person, day) &&
                        !plain_is_taken(person, day, start + length);
               });
      };
      while (goes_on()) ++length;
      if (length > longest) longest = length, starts = 0;
      if (length > 0 && length == longest) ++starts;
    }
  }
  std::ostringstream wanted;
  wanted << "[" << longest << ", " << starts << "]";
  std::string plain = wanted.str(), have = text;
  std::erase(plain, ' ');
  std::erase(have, ' ');
  return !people.empty() && (have == plain || "[" + have + "]" == plain);
}

}  // namespace longhaul::puzzles
