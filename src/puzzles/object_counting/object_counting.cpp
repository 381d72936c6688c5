#include "puzzles/object_counting/object_counting.h"

#include <fmt/compile.h>

#include <algorithm>
#include <bitset>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles::object_counting {
namespace {

constexpr size_t kOthers = 16;
constexpr size_t kMostStatements = 500;
constexpr int64_t kMostCount = 1'000'000;
constexpr Knob kKnobs[] = {{"categories", 2, 7, 3, 6, "categories of things"},
                           {"mine", 1, 15, 2, 6, "things of each category that I have"},
                           {"others", 0, 120, 10, 40, "things that other people have"},
                           {"history_percent", 0, 100, 20, 60,
                            "percent of my counts that are told with the changes that led to them"},
                           {"least_count", 1, 999, 5, 40, "least count of a thing"},
                           {"largest_count", 10, 1000, 50, 150, "largest count (at least the least one)"}};

// Three to six counts that end with the true one; none is as the one before.
std::vector<int64_t> random_history(int64_t count, int64_t least, int64_t most, Draw& draw) {
  std::vector<int64_t> counts = {count};
  const int64_t length = draw.between(3, 6);
  while (static_cast<int64_t>(counts.size()) < length) {
    const int64_t before = draw.between(least, most + 1);
    if (before != counts.back()) counts.push_back(before);
  }
  std::ranges::reverse(counts);
  return counts;
}

nlohmann::json json_of(const Statement& one) {
  nlohmann::json aside;
  if (one.remark >= 0) aside = one.remark;
  if (!one.history.empty()) aside = one.history;
  return json_list(one.owner, one.thing, one.count, std::move(aside));
}

std::vector<Statement> random_statements(const std::vector<size_t>& chosen, const KnobValues& knobs,
                                         Draw& draw) {
  const int64_t least = knobs["least_count"], most = std::max(least, knobs["largest_count"]);
  const int64_t mine = knobs["mine"], others = knobs["others"], history_percent = knobs["history_percent"];
  std::vector<Statement> all;
  all.reserve(chosen.size() * static_cast<size_t>(mine) + static_cast<size_t>(others));
  std::vector<std::string_view> known;  // things of the chosen categories
  for (const size_t category : chosen) {
    std::vector<Word> things(categories()[category].things.begin(), categories()[category].things.end());
    for (const Word& thing : things) known.push_back(thing.english);
    for (int64_t i = 0; i < mine; ++i) {
      const auto place = static_cast<size_t>(i);
      std::swap(things[place], things[place + draw.below(things.size() - place)]);
      Statement one{
          .owner = "", .thing = things[static_cast<size_t>(i)].english, .count = draw.between(least, most)};
      if (draw.chance(history_percent)) {
        one.history = random_history(one.count, least, most, draw);
      } else if (draw.chance(50)) {
        one.remark = draw.between(0, kRemarks - 1);
      }
      all.push_back(std::move(one));
    }
  }
  std::vector<Word> people(names().begin(), names().end());
  for (size_t i = 0; i < kOthers; ++i) std::swap(people[i], people[i + draw.below(people.size() - i)]);
  std::vector<std::bitset<kOthers>> told(known.size());  // by thing: whose are told of
  for (int64_t i = 0; i < others;) {
    const size_t person = draw.below(kOthers), thing = draw.below(known.size());
    Statement one{.owner = people[person].english, .thing = known[thing], .count = draw.between(least, most)};
    if (told[thing][person]) continue;
    told[thing].set(person);
    if (draw.chance(50)) one.remark = draw.between(0, kRemarks - 1);
    all.push_back(std::move(one));
    ++i;
  }
  draw.shuffle(all);
  return all;
}

int64_t count_of(const Given& puzzle, size_t category) {
  int64_t count = 0;
  for (const Statement& one : puzzle.statements)
    count += one.owner.empty() && category_of(one.thing) == category ? one.count : 0;
  return count;
}

int64_t answer_of(const Given& puzzle) {
  const int64_t first = count_of(puzzle, puzzle.asked[0]);
  if (puzzle.question == "total") return first;
  const int64_t second = count_of(puzzle, puzzle.asked[1]);
  return puzzle.question == "sum" ? first + second : std::abs(first - second);
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  std::vector<size_t> chosen(categories().size());
  std::iota(chosen.begin(), chosen.end(), 0);
  draw.shuffle(chosen);
  chosen.resize(static_cast<size_t>(knobs["categories"]));
  nlohmann::json::array_t statements;
  for (const Statement& one : random_statements(chosen, knobs, draw)) statements.push_back(json_of(one));
  static constexpr const char* kQuestions[] = {"total", "sum", "difference"};
  nlohmann::json question = {kQuestions[draw.below(std::size(kQuestions))],
                             categories()[chosen[0]].name.english};
  if (question[0] != "total") question.push_back(categories()[chosen[1]].name.english);
  nlohmann::json given = nlohmann::json::object();
  given["statements"] = std::move(statements);
  given["question"] = std::move(question);
  const int64_t answer = answer_of(read_given(given));
  return Puzzle{.given = std::move(given), .solution = std::to_string(answer)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const int64_t wanted = answer_of(read_given(given));
  const std::optional<int64_t> answer = read_grouped_integer(payload);
  if (!answer) return {VerdictCode::kUnreadable, "no whole number"};
  if (*answer != wanted) return {VerdictCode::kRuleBroken, fmt::format("{} is not the count", *answer)};
  return {};
}

std::string canonical(const nlohmann::json& given) {
  const Given puzzle = read_given(given);
  std::vector<const Statement*> order;  // of statements makes no other puzzle
  for (const Statement& one : puzzle.statements) order.push_back(&one);
  std::ranges::sort(order, {}, [](const Statement* one) {
    return std::tie(one->owner, one->thing, one->count, one->remark);
  });
  std::string text(puzzle.question);
  for (const size_t category : puzzle.asked) (text += ' ') += std::to_string(category);
  for (const Statement* one : order) {
    fmt::format_to(std::back_inserter(text), FMT_COMPILE("\n{},{},{},{}"), one->owner, one->thing, one->count,
                   one->remark);
    for (const int64_t count : one->history) (text += '/') += std::to_string(count);
  }
  return text;
}

Statement read_statement(const nlohmann::json& json) {
  list_of(json, 4, 4, "a statement", kTask.key);
  Statement one{.owner = text_of(json[0], "an owner", kTask.key),
                .thing = text_of(json[1], "a thing", kTask.key)};
  if (!one.owner.empty() && !word_in(one.owner, Language::kEnglish))
    refuse_given(kTask.key, "owners that our table of names holds", json);
  if (category_of(one.thing) == categories().size())
    refuse_given(kTask.key, "things of our categories", json);
  one.count = integer_of(json[2], 0, kMostCount, "a count", kTask.key);
  if (json[3].is_number()) {
    one.remark = integer_of(json[3], 0, kRemarks - 1, "a remark", kTask.key);
  } else if (!json[3].is_null()) {
    for (const nlohmann::json& count : list_of(json[3], 2, 20, "the counts of a statement", kTask.key))
      one.history.push_back(integer_of(count, 0, kMostCount, "a count", kTask.key));
    if (one.history.back() != one.count) refuse_given(kTask.key, "changes that lead to the count", json);
  }
  return one;
}

}  // namespace

size_t category_of(std::string_view thing) {
  static const auto table = [] {
    std::unordered_map<std::string_view, size_t> made;
    for (size_t category = 0; category < categories().size(); ++category) {
      for (const Word& word : categories()[category].things) made.emplace(word.english, category);
    }
    return made;
  }();
  const auto found = table.find(thing);
  return found == table.end() ? categories().size() : found->second;
}

Given read_given(const nlohmann::json& given) {
  Given puzzle;
  const nlohmann::json& statements =
      list_of(member_of(given, "statements", kTask.key), 1, kMostStatements, "\"statements\"", kTask.key);
  puzzle.statements.reserve(statements.size());
  for (const nlohmann::json& one : statements) puzzle.statements.push_back(read_statement(one));
  const nlohmann::json& question =
      list_of(member_of(given, "question", kTask.key), 2, 3, "\"question\"", kTask.key);
  puzzle.question = text_of(question[0], "\"question\"", kTask.key);
  const bool known =
      puzzle.question == "total" || puzzle.question == "sum" || puzzle.question == "difference";
  if (!known || question.size() != (puzzle.question == "total" ? 2U : 3U))
    refuse_given(kTask.key, "\"question\": total and a category, or sum or difference and two", question);
  for (size_t i = 1; i < question.size(); ++i) {
    const std::string& name = text_of(question[i], "\"question\"", kTask.key);
    const auto found = std::ranges::find_if(
        categories(), [&](const Category& category) { return category.name.english == name; });
    if (found == categories().end()) refuse_given(kTask.key, "categories that there are", question);
    puzzle.asked.push_back(static_cast<size_t>(found - categories().begin()));
  }
  return puzzle;
}

const TaskEntry kTask = {.key = "object_counting",
                         .title = "Count things among what others have",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::object_counting
