#include "puzzles/goods_exchange/goods_exchange.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles::goods_exchange {
namespace {

constexpr size_t kMostPeople = 60;
constexpr Knob kKnobs[] = {{"people", 3, kMostPeople, 5, 30, "people, each with one thing"},
                           {"steps", 1, 200, 3, 60, "things that happen"},
                           {"idle_percent", 0, 90, 0, 30, "percent of steps in which nothing changes hands"}};

// The thing of a person.
size_t thing_of(const std::vector<size_t>& owners, size_t person) {
  return static_cast<size_t>(std::ranges::find(owners, person) - owners.begin());
}

Step random_step(bool changes, const std::vector<size_t>& owners, Draw& draw) {
  Step step;
  do {
    step.kind = draw.below(step_kinds().size());
  } while (step_kinds()[step.kind].changes != changes);
  std::vector<size_t> people(owners.size());
  std::iota(people.begin(), people.end(), 0);
  draw.shuffle(people);
  const std::string_view name = step_kinds()[step.kind].name;
  const size_t a = people[0], b = people[1], x = thing_of(owners, a), y = thing_of(owners, b);
  if (name == "swap" || name == "refuse") step.parts = {a, b};
  if (name == "swap_things" || name == "owners_swap") step.parts = {x, y};
  if (name == "owner_swaps_with") step.parts = {x, b};
  if (name == "trade_for") step.parts = {a, x, y};
  if (name == "give_and_get" || name == "exchange") step.parts = {a, x, b, y};
  if (name == "swap_with_owner" || name == "like" || name == "look_for") step.parts = {a, y};
  if (name == "circle") step.parts = {a, b, people[2]};
  return step;
}

std::string owns_text(const std::vector<std::string>& people, const std::vector<std::string>& things,
                      const std::vector<size_t>& owners, Language language) {
  std::vector<std::string> pairs;
  for (size_t person = 0; person < people.size(); ++person)
    pairs.push_back(fmt::format("('{}','{}')", in_language(people[person], language),
                                thing_in(things[thing_of(owners, person)], language)));
  return fmt::format("({})", fmt::join(pairs, ","));
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const auto count = static_cast<size_t>(knobs["people"]);
  std::vector<Word> all_names(names().begin(), names().end()),
      all_colours(colours().begin(), colours().end()), kinds(things().begin(), things().end());
  draw.shuffle(all_names);
  draw.shuffle(kinds);
  std::vector<std::string> people, goods;
  for (size_t i = 0; i < count; ++i) {
    people.emplace_back(all_names[i].english);
    // two of a kind, in two colours
    goods.push_back(fmt::format("{} {}", draw.pick(all_colours).english, kinds[i / 2].english));
    if (i % 2 == 1 && goods[i] == goods[i - 1]) return std::nullopt;
  }
  draw.shuffle(goods);
  std::vector<size_t> owners(count);
  std::iota(owners.begin(), owners.end(), 0);
  nlohmann::json steps = nlohmann::json::array();
  for (int64_t i = 0; i < knobs["steps"]; ++i) {
    const Step step = random_step(!draw.chance(knobs["idle_percent"]), owners, draw);
    nlohmann::json json = {step_kinds()[step.kind].name};
    for (const size_t part : step.parts) json.push_back(part);
    steps.push_back(std::move(json));
    apply(step, owners);
  }
  const std::string owns = owns_text(people, goods, owners, Language::kEnglish);
  return Puzzle{
      .given = {{"people", people}, {"before", goods}, {"steps", std::move(steps)}, {"owns_after", owns}},
      .solution = owns};
}

std::string in_lower(std::string_view text) {
  std::string lower(trimmed(text));
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// A name or a thing as it is compared: in English and lower case where our tables hold it, else as it is
// written, in lower case.
std::string compared_text(std::string_view text) {
  if (const auto name = english_word(text)) return in_lower(*name);
  for (const Word& colour : colours()) {
    if (!trimmed(text).starts_with(colour.chinese)) continue;
    const auto thing = english_word(trimmed(text).substr(colour.chinese.size()));
    if (thing) return fmt::format("{} {}", colour.english, *thing);
  }
  std::string lower = in_lower(text);
  for (const std::string_view article : {"the ", "an ", "a "}) {
    if (lower.starts_with(article)) return lower.substr(article.size());
  }
  return lower;
}

// Pairs of a person and a thing, as a list of pairs or a dictionary; none: it is something else, or names a
// person twice.
std::optional<std::map<std::string, std::string>> read_owns(std::string_view text) {
  const std::optional<Literal> value = read_literal(text);
  if (!value || (!value->is_list() && value->kind != Literal::Kind::kDictionary)) return std::nullopt;
  std::map<std::string, std::string> owns;
  const auto add = [&](const Literal& person, const Literal& thing) {
    const auto is_text = [](const Literal& one) {
      return one.kind == Literal::Kind::kText || one.kind == Literal::Kind::kWord;
    };
    return is_text(person) && is_text(thing) &&
           owns.emplace(compared_text(person.text), compared_text(thing.text)).second;
  };
  if (value->is_list()) {
    for (const Literal& pair : value->items) {
      if (!pair.is_list() || pair.items.size() != 2 || !add(pair.items[0], pair.items[1]))
        return std::nullopt;
    }
  } else {
    for (size_t i = 0; i < value->items.size(); i += 2) {
      if (!add(value->items[i], value->items[i + 1])) return std::nullopt;
    }
  }
  return owns;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const auto wanted =
      read_owns(text_of(member_of(given, "owns_after", kTask.key), "\"owns_after\"", kTask.key));
  if (!wanted || wanted->empty())
    refuse_given(kTask.key, "\"owns_after\": pairs of a person and a thing", given);
  const auto answer = read_owns(payload);
  if (!answer) return {VerdictCode::kUnreadable, "not pairs of a person and a thing, each person once"};
  if (answer->size() != wanted->size())
    return {VerdictCode::kShape,
            fmt::format("{} people, where there are {}", answer->size(), wanted->size())};
  for (const auto& [person, thing] : *wanted) {
    const auto found = answer->find(person);
    if (found == answer->end()) return {VerdictCode::kShape, fmt::format("{} is missing", person)};
    if (found->second != thing)
      return {VerdictCode::kRuleBroken, fmt::format("{} does not own that", person)};
  }
  return {};
}

std::string canonical(const nlohmann::json& given) {
  check_told(given);
  // names of people and things are only names
  return fmt::format("{} {}", given.at("people").size(), given.at("steps").dump());
}

Puzzle told_in(Puzzle puzzle, Language language) {
  check_told(puzzle.given);
  const auto people = puzzle.given["people"].get<std::vector<std::string>>(),
             goods = puzzle.given["before"].get<std::vector<std::string>>();
  std::vector<size_t> owners(people.size());
  const auto owns = read_owns(puzzle.solution);
  for (size_t person = 0; person < people.size(); ++person) {
    const auto own = owns ? owns->find(compared_text(people[person]))
                          : std::map<std::string, std::string>::const_iterator();
    const auto thing = owns && own != owns->end() ? std::ranges::find(goods, own->second) : goods.end();
    if (thing == goods.end())
      refuse_given(kTask.key, "a solution that tells what each of \"people\" has of \"before\"",
                   puzzle.solution);
    owners[static_cast<size_t>(thing - goods.begin())] = person;
  }
  puzzle.solution = owns_text(people, goods, owners, language);
  puzzle.given["owns_after"] = puzzle.solution;
  return puzzle;
}

}  // namespace

void check_told(const nlohmann::json& given) {
  constexpr size_t kMostTold = 200, kMostSteps = 1000;
  const nlohmann::json& people =
      list_of(member_of(given, "people", kTask.key), 1, kMostTold, "\"people\"", kTask.key);
  for (const nlohmann::json& person : people) {
    if (!word_in(text_of(person, "a person", kTask.key), Language::kEnglish))
      refuse_given(kTask.key, "names that our table holds", person);
  }
  for (const nlohmann::json& json : list_of(member_of(given, "before", kTask.key), people.size(),
                                            people.size(), "\"before\"", kTask.key)) {
    const std::string_view thing = text_of(json, "a thing", kTask.key);
    const size_t blank = thing.find(' ');
    const bool known = blank != std::string_view::npos &&
                       word_in(thing.substr(0, blank), Language::kEnglish) &&
                       word_in(thing.substr(blank + 1), Language::kEnglish);
    if (!known) refuse_given(kTask.key, "things that our tables hold, each with a colour", json);
  }
  for (const nlohmann::json& step :
       list_of(member_of(given, "steps", kTask.key), 0, kMostSteps, "\"steps\"", kTask.key)) {
    const std::string& name =
        text_of(list_of(step, 1, 5, "a step", kTask.key)[0], "the kind of a step", kTask.key);
    const auto kind = std::ranges::find(step_kinds(), name, &StepKind::name);
    if (kind == step_kinds().end() || step.size() != kind->parts.size() + 1)
      refuse_given(kTask.key, "\"steps\" that there are, with their parts", step);
    for (size_t i = 1; i < step.size(); ++i)
      integer_of(step[i], 0, static_cast<int64_t>(people.size()) - 1,
                 "a part of a step: the place of a person or thing", kTask.key);
  }
}

void apply(const Step& step, std::vector<size_t>& owners) {
  const StepKind& kind = step_kinds()[step.kind];
  if (!kind.changes) return;
  if (kind.name == "circle") {
    const size_t first = thing_of(owners, step.parts[0]), second = thing_of(owners, step.parts[1]),
                 third = thing_of(owners, step.parts[2]);
    owners[first] = step.parts[1];
    owners[second] = step.parts[2];
    owners[third] = step.parts[0];
    return;
  }
  // In every other kind the first and the last part tell the two things, by themselves or by their owners.
  const auto thing = [&](size_t i) {
    return kind.parts[i] == Part::kThing ? step.parts[i] : thing_of(owners, step.parts[i]);
  };
  std::swap(owners[thing(0)], owners[thing(kind.parts.size() - 1)]);
}

std::string thing_in(std::string_view english, Language language) {
  const size_t blank = english.find(' ');
  LONGHAUL_ASSERT(blank != std::string_view::npos, "{}", english);
  if (language == Language::kEnglish) return std::string(english);
  return fmt::format("{}{}", in_language(english.substr(0, blank), language),
                     in_language(english.substr(blank + 1), language));
}

const TaskEntry kTask = {.key = "goods_exchange",
                         .title = "Say who owns what after many exchanges",
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .in_language = told_in};

}  // namespace longhaul::puzzles::goods_exchange
