#include "puzzles/goods_exchange/goods_exchange.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

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
  std::array<size_t, 3> people{};
  for (size_t i = 0; i < people.size(); ++i) {
    do {
      people[i] = draw.below(owners.size());
    } while (std::find(people.begin(), people.begin() + i, people[i]) != people.begin() + i);
  }
  for (const char part : step_kinds()[step.kind].drawn)
    step.parts.push_back(part >= 'x' ? thing_of(owners, people[static_cast<size_t>(part - 'x')])
                                     : people[static_cast<size_t>(part - 'a')]);
  return step;
}

template <class Text>
std::string owns_text(const std::vector<Text>& people, const std::vector<Text>& things,
                      const std::vector<size_t>& owners, Language language) {
  std::string text = "(";
  for (size_t person = 0; person < people.size(); ++person) {
    text += person == 0 ? "('" : ",('";
    (text += in_language(people[person], language)) += "','";
    write_thing(things[thing_of(owners, person)], language, text);
    text += "')";
  }
  return text += ')';
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
    (goods.emplace_back(draw.pick(all_colours).english) += ' ') += kinds[i / 2].english;
    if (i % 2 == 1 && goods[i] == goods[i - 1]) return std::nullopt;
  }
  draw.shuffle(goods);
  std::vector<size_t> owners(count);
  std::iota(owners.begin(), owners.end(), 0);
  const int64_t idle = knobs["idle_percent"], count_of_steps = knobs["steps"];
  nlohmann::json::array_t steps;
  steps.reserve(static_cast<size_t>(count_of_steps));
  for (int64_t i = 0; i < count_of_steps; ++i) {
    const Step step = random_step(!draw.chance(idle), owners, draw);
    nlohmann::json::array_t json;
    json.reserve(step.parts.size() + 1);
    json.emplace_back(step_kinds()[step.kind].name);
    json.insert(json.end(), step.parts.begin(), step.parts.end());
    steps.emplace_back(std::move(json));
    apply(step, owners);
  }
  Puzzle puzzle{.given = nlohmann::json::object(),
                .solution = owns_text(people, goods, owners, Language::kEnglish)};
  puzzle.given["people"] = people;
  puzzle.given["before"] = goods;
  puzzle.given["steps"] = std::move(steps);
  puzzle.given["owns_after"] = puzzle.solution;
  return puzzle;
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
  const std::string_view bare = trimmed(text);
  for (const Word& colour : bare.empty() || bare[0] >= ' ' ? std::span<const Word>() : colours()) {
    if (!bare.starts_with(colour.chinese)) continue;
    const auto thing = english_word(bare.substr(colour.chinese.size()));
    if (thing) return fmt::format("{} {}", colour.english, *thing);
  }
  std::string lower = in_lower(text);
  for (const std::string_view article : {"the ", "an ", "a "}) {
    if (lower.starts_with(article)) return lower.substr(article.size());
  }
  return lower;
}

// Pairs of a person and a thing, sorted, from a list of pairs or a dictionary; none: it is something else, or
// names a person twice.
using Owns = std::vector<std::pair<std::string, std::string>>;
std::optional<Owns> read_owns(std::string_view text) {
  const std::optional<Literal> value = read_literal(text);
  if (!value || (!value->is_list() && value->kind != Literal::Kind::kDictionary)) return std::nullopt;
  Owns owns;
  owns.reserve(value->items.size());
  const auto add = [&](const Literal& person, const Literal& thing) {
    const auto is_text = [](const Literal& one) {
      return one.kind == Literal::Kind::kText || one.kind == Literal::Kind::kWord;
    };
    if (!is_text(person) || !is_text(thing)) return false;
    owns.emplace_back(compared_text(person.text), compared_text(thing.text));
    return true;
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
  std::ranges::sort(owns);
  const bool twice = std::ranges::adjacent_find(owns, {}, &Owns::value_type::first) != owns.end();
  return twice ? std::nullopt : std::optional(std::move(owns));
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const std::string& key = text_of(member_of(given, "owns_after", kTask.key), "\"owns_after\"", kTask.key);
  const auto wanted = read_owns(key);
  if (!wanted || wanted->empty())
    refuse_given(kTask.key, "\"owns_after\": pairs of a person and a thing", given);
  if (payload == key) return {};
  const auto answer = read_owns(payload);
  if (!answer) return {VerdictCode::kUnreadable, "not pairs of a person and a thing, each person once"};
  if (answer->size() != wanted->size())
    return {VerdictCode::kShape,
            fmt::format("{} people, where there are {}", answer->size(), wanted->size())};
  for (const auto& [person, thing] : *wanted) {
    const auto found = std::ranges::lower_bound(*answer, person, {}, &Owns::value_type::first);
    if (found == answer->end() || found->first != person)
      return {VerdictCode::kShape, fmt::format("{} is missing", person)};
    if (found->second != thing)
      return {VerdictCode::kRuleBroken, fmt::format("{} does not own that", person)};
  }
  return {};
}

std::string canonical(const nlohmann::json& given) {
  const Told told = read_told(given);
  std::string text = std::to_string(told.people.size());  // names of people and things are only names
  for (const Step& step : told.steps) {
    (text += ' ') += static_cast<char>('a' + static_cast<char>(step.kind));
    for (const size_t part : step.parts) (text += std::to_string(part)) += ',';
  }
  return text;
}

Puzzle told_in(Puzzle puzzle, Language language) {
  const Told told = read_told(puzzle.given);
  std::vector<size_t> owners(told.people.size());
  const auto owns = read_owns(puzzle.solution).value_or(Owns());
  for (size_t person = 0; person < told.people.size(); ++person) {
    const auto own = std::ranges::find(owns, compared_text(told.people[person]), &Owns::value_type::first);
    const auto thing = own == owns.end() ? told.before.end() : std::ranges::find(told.before, own->second);
    if (thing == told.before.end())
      refuse_given(kTask.key, "a solution that tells what each of \"people\" has of \"before\"",
                   puzzle.solution);
    owners[static_cast<size_t>(thing - told.before.begin())] = person;
  }
  puzzle.solution = owns_text(told.people, told.before, owners, language);
  puzzle.given["owns_after"] = puzzle.solution;
  return puzzle;
}

}  // namespace

Told read_told(const nlohmann::json& given) {
  constexpr size_t kMostTold = 200, kMostSteps = 1000;
  Told told;
  for (const nlohmann::json& person :
       list_of(member_of(given, "people", kTask.key), 1, kMostTold, "\"people\"", kTask.key)) {
    told.people.push_back(text_of(person, "a person", kTask.key));
    if (!word_in(told.people.back(), Language::kEnglish))
      refuse_given(kTask.key, "names that our table holds", person);
  }
  const size_t people = told.people.size();
  for (const nlohmann::json& json :
       list_of(member_of(given, "before", kTask.key), people, people, "\"before\"", kTask.key)) {
    const std::string_view thing = told.before.emplace_back(text_of(json, "a thing", kTask.key));
    const size_t blank = thing.find(' ');
    const bool known = blank != std::string_view::npos &&
                       word_in(thing.substr(0, blank), Language::kEnglish) &&
                       word_in(thing.substr(blank + 1), Language::kEnglish);
    if (!known) refuse_given(kTask.key, "things that our tables hold, each with a colour", json);
  }
  for (const nlohmann::json& json :
       list_of(member_of(given, "steps", kTask.key), 0, kMostSteps, "\"steps\"", kTask.key)) {
    const std::string& name =
        text_of(list_of(json, 1, 5, "a step", kTask.key)[0], "the kind of a step", kTask.key);
    const auto kind = std::ranges::find(step_kinds(), name, &StepKind::name);
    if (kind == step_kinds().end() || json.size() != kind->parts.size() + 1)
      refuse_given(kTask.key, "\"steps\" that there are, with their parts", json);
    Step& step = told.steps.emplace_back(Step{static_cast<size_t>(kind - step_kinds().begin()), {}});
    step.parts.reserve(kind->parts.size());
    for (size_t i = 1; i < json.size(); ++i)
      step.parts.push_back(
          static_cast<size_t>(integer_of(json[i], 0, static_cast<int64_t>(people) - 1,
                                         "a part of a step: the place of a person or thing", kTask.key)));
  }
  return told;
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

void write_thing(std::string_view english, Language language, std::string& text) {
  const size_t blank = english.find(' ');
  LONGHAUL_ASSERT(blank != std::string_view::npos, "{}", english);
  if (language == Language::kEnglish) {
    text += english;
  } else {
    (text += in_language(english.substr(0, blank), language)) +=
        in_language(english.substr(blank + 1), language);
  }
}

const TaskEntry kTask = {.key = "goods_exchange",
                         .title = "Say who owns what after many exchanges",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .in_language = told_in};

}  // namespace longhaul::puzzles::goods_exchange
