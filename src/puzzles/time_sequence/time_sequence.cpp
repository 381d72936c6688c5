#include "puzzles/time_sequence/time_sequence.h"

#include <algorithm>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles::time_sequence {
namespace {

constexpr size_t kMostPeople = 10;
// of the weeks without a meeting that are kept: their answer is always the same
constexpr int64_t kEmptyPercent = 10;
constexpr Knob kKnobs[] = {
    {"people", 1, kMostPeople, 2, 6, "people who meet"},
    {"rules_percent", 0, 100, 0, 100, "percent of people with a rule of their own"},
    {"busy_percent", 0, 100, 60, 80, "percent of days that are told by what is taken, not by what is free"}};
constexpr std::string_view kRuleNames[kRules] = {"",
                                                 "rest_after",
                                                 "rest_before",
                                                 "ends_by_16",
                                                 "lunch_wednesday",
                                                 "cancels_early",
                                                 "clock_ahead",
                                                 "tuesday_thursday",
                                                 "cancels_short",
                                                 "cancels_shortest",
                                                 "tuesday_friday"};
constexpr int64_t kHour = 12;  // slots

using Slots = std::bitset<kSlots>;

void mark(Slots& slots, int64_t begin, int64_t end) {
  for (int64_t slot = std::max<int64_t>(begin, 0); slot < std::min(end, kSlots); ++slot)
    slots.set(static_cast<size_t>(slot));
}

bool cancelled(Rule rule, int64_t begin, int64_t end) {
  if (rule == Rule::kCancelsEarly) return end <= 9;
  if (rule == Rule::kCancelsShort) return end - begin <= 6;
  return rule == Rule::kCancelsShortest && end - begin <= 2;
}

int64_t most_slots(Rule rule, int64_t day) {
  if (rule == Rule::kTuesdayThursday) return day == 1 || day == 3 ? kHour : 0;
  if (rule == Rule::kTuesdayFriday) return day == 1 || day == 4 ? kHour / 2 : 0;
  return kSlots;
}

// A number from `least` to `most`, of which n has the weight 1 / (n + more).
class Weighted {
 public:
  Weighted(int64_t least, int64_t most, int64_t more) : least_(least) {
    int64_t sum = 0;
    for (int64_t n = least; n <= most; ++n) sums_.push_back(sum += 1'000'000 / (n + more));
  }
  int64_t draw(Draw& draw) const {
    const auto place = static_cast<int64_t>(draw.below(static_cast<uint64_t>(sums_.back())));
    return least_ + (std::ranges::upper_bound(sums_, place) - sums_.begin());
  }

 private:
  int64_t least_;
  std::vector<int64_t> sums_;
};

Times random_times(bool busy, Draw& draw) {
  static const Weighted first_gap(0, 35, 5), gap(1, 35, 5), length(1, 24, 2);
  Times day{.busy = busy};
  const int64_t count = draw.between(2, 5);
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = at + (i == 0 ? first_gap : gap).draw(draw), end = begin + length.draw(draw);
    if (end > kSlots) break;
    day.times.emplace_back(begin, end);
    at = end;
  }
  if (day.times.empty()) day.times.emplace_back(0, 1);
  return day;
}

bool needs_listed_commitments(Rule rule) {
  return rule == Rule::kCancelsEarly || rule == Rule::kCancelsShort || rule == Rule::kCancelsShortest;
}

nlohmann::json json_of(const std::vector<Person>& people) {
  nlohmann::json::array_t json;
  json.reserve(people.size());
  for (const Person& person : people) {
    nlohmann::json::array_t days;
    days.reserve(kDays);
    for (const Times& day : person.days) {
      nlohmann::json::array_t times;
      times.reserve(day.times.size());
      for (const auto& [begin, end] : day.times) times.push_back(json_list(begin, end));
      nlohmann::json::object_t& told =
          days.emplace_back(nlohmann::json::object_t()).get_ref<nlohmann::json::object_t&>();
      told["busy"] = day.busy;
      told["times"] = std::move(times);
    }
    nlohmann::json::object_t& told =
        json.emplace_back(nlohmann::json::object_t()).get_ref<nlohmann::json::object_t&>();
    told["name"] = person.name;
    told["rule"] = name_of(person.rule);
    told["days"] = std::move(days);
  }
  return json;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  std::vector<Word> all(names().begin(), names().end());
  draw.shuffle(all);
  std::vector<Person> people(static_cast<size_t>(knobs["people"]));
  for (size_t i = 0; i < people.size(); ++i) {
    people[i].name = all[i].english;
    if (draw.chance(knobs["rules_percent"])) people[i].rule = static_cast<Rule>(draw.between(1, kRules - 1));
    for (Times& day : people[i].days) {
      const bool busy = draw.chance(knobs["busy_percent"]);
      day = random_times(busy || needs_listed_commitments(people[i].rule), draw);
    }
  }
  const Longest longest = longest_meeting(people);
  if (longest.minutes == 0 && !draw.chance(kEmptyPercent)) return std::nullopt;
  nlohmann::json given = nlohmann::json::object();
  given["people"] = json_of(people);
  nlohmann::json& answers = given["records"]["answers"];
  answers["answer_maxLen"] = longest.minutes;
  answers["answer_nums"] = longest.starts;
  return Puzzle{.given = std::move(given),
                .solution = fmt::format("[{}, {}]", longest.minutes, longest.starts)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const nlohmann::json& answers = member_of(member_of(given, "records", kTask.key), "answers", kTask.key);
  const Longest key{
      integer_of(member_of(answers, "answer_maxLen", kTask.key), 0, 480, "\"answer_maxLen\"", kTask.key),
      integer_of(member_of(answers, "answer_nums", kTask.key), 0, kDays * 16, "\"answer_nums\"", kTask.key)};
  std::optional<Literal> answer = read_literal(payload);
  if (!answer) answer = read_literal(fmt::format("[{}]", payload));
  if (!answer || !answer->is_list()) return {VerdictCode::kUnreadable, "no list of two whole numbers"};
  if (answer->items.size() != 2 || answer->items[0].kind != Literal::Kind::kInteger ||
      answer->items[1].kind != Literal::Kind::kInteger)
    return {VerdictCode::kShape, "not two whole numbers"};
  if (answer->items[0].integer != key.minutes)
    return {VerdictCode::kRuleBroken,
            fmt::format("{} minutes are not the longest meeting", answer->items[0].integer)};
  if (answer->items[1].integer != key.starts)
    return {VerdictCode::kRuleBroken,
            fmt::format("there are not {} starts of the longest meeting", answer->items[1].integer)};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  std::vector<std::string> people;  // whose order and names make no other puzzle
  for (const Person& person : read_people(given)) {
    std::string& text = people.emplace_back(1, static_cast<char>('a' + static_cast<char>(person.rule)));
    for (const Times& day : person.days) {
      text += day.busy ? '+' : '-';
      for (const auto& [begin, end] : day.times)
        (text += static_cast<char>(' ' + begin)) += static_cast<char>(' ' + end);  // at most 96
    }
  }
  std::ranges::sort(people);
  return fmt::format("{}", fmt::join(people, "\n"));
}

}  // namespace

std::string_view name_of(Rule rule) { return kRuleNames[static_cast<size_t>(rule)]; }

Slots taken_of(const Person& person, int64_t day) {
  const Times& told = person.days[static_cast<size_t>(day)];
  const int64_t shift = person.rule == Rule::kClockAhead ? kHour : 0;
  Slots taken;
  for (const auto& [begin, end] : told.times) {
    if (!told.busy || !cancelled(person.rule, begin, end)) mark(taken, begin - shift, end - shift);
  }
  if (!told.busy) taken.flip();
  if (person.rule == Rule::kRestAfter) taken |= taken << 1 | taken << 2;
  if (person.rule == Rule::kRestBefore) taken |= taken >> 1 | taken >> 2;
  if (person.rule == Rule::kEndsBy16 || person.rule == Rule::kClockAhead) mark(taken, kSlots - kHour, kSlots);
  if (person.rule == Rule::kLunchWednesday && day == 2) mark(taken, 42, 48);
  return taken;
}

Longest longest_meeting(const std::vector<Person>& people) {
  Longest longest;
  for (int64_t day = 0; day < kDays; ++day) {
    Slots taken;
    int64_t most = kSlots;
    for (const Person& person : people) {
      taken |= taken_of(person, day);
      most = std::min(most, most_slots(person.rule, day));
    }
    for (int64_t start = 0; start < kSlots; start += kHour / 2) {
      int64_t length = 0;
      while (length < most && start + length < kSlots && !taken[static_cast<size_t>(start + length)])
        ++length;
      if (length == 0 || length * 5 < longest.minutes) continue;
      longest = {length * 5, length * 5 == longest.minutes ? longest.starts + 1 : 1};
    }
  }
  return longest;
}

std::vector<Person> read_people(const nlohmann::json& given) {
  std::vector<Person> people;
  for (const nlohmann::json& one :
       list_of(member_of(given, "people", kTask.key), 1, kMostPeople, "\"people\"", kTask.key)) {
    Person person{.name = text_of(member_of(one, "name", kTask.key), "\"name\"", kTask.key)};
    if (!word_in(person.name, Language::kEnglish)) refuse_given(kTask.key, "names that our table holds", one);
    const auto rule =
        std::ranges::find(kRuleNames, text_of(member_of(one, "rule", kTask.key), "\"rule\"", kTask.key));
    if (rule == std::end(kRuleNames))
      refuse_given(kTask.key, fmt::format("\"rule\": one of {}", fmt::join(kRuleNames, ", ")), one);
    person.rule = static_cast<Rule>(rule - kRuleNames);
    const nlohmann::json& days =
        list_of(member_of(one, "days", kTask.key), kDays, kDays, "\"days\"", kTask.key);
    for (size_t day = 0; day < kDays; ++day) {
      const nlohmann::json& busy = member_of(days[day], "busy", kTask.key);
      if (!busy.is_boolean()) refuse_given(kTask.key, "\"busy\": true or false", busy);
      person.days[day].busy = busy.get<bool>();
      for (const nlohmann::json& time :
           list_of(member_of(days[day], "times", kTask.key), 0, kSlots, "\"times\"", kTask.key)) {
        list_of(time, 2, 2, "a time", kTask.key);
        const int64_t begin = integer_of(time[0], 0, kSlots - 1, "the begin of a time", kTask.key);
        person.days[day].times.emplace_back(
            begin, integer_of(time[1], begin + 1, kSlots, "the end of a time", kTask.key));
      }
    }
    people.push_back(std::move(person));
  }
  return people;
}

const TaskEntry kTask = {.key = "time_sequence",
                         .title = "Find the longest meeting of a week",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::time_sequence
