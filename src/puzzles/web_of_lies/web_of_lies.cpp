#include "puzzles/web_of_lies/web_of_lies.h"

#include <algorithm>
#include <numeric>

#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/words.h"

namespace longhaul::puzzles::web_of_lies {
namespace {

constexpr size_t kMostPeople = 40, kMostStatements = 400;
constexpr int64_t kByPlacePercent = 70;
constexpr Knob kKnobs[] = {
    {"people", 4, kMostPeople, 5, 30, "people"},
    {"asked", 1, 20, 1, 12, "people whose kind is asked for (at most half)"},
    {"depth", 1, 5, 1, 5, "how little the narrator tells, and how much that means nothing"},
    {"extended_percent", 0, 50, 0, 20,
     "percent of statements about several people or the speaker's own kind"}};

nlohmann::json json_of(const Statement& one) {
  nlohmann::json::array_t json;
  json.reserve(one.people.size() + 3);
  json.emplace_back(one.kind);
  json.insert(json.end(), one.people.begin(), one.people.end());
  if (one.kind == "scene") json.emplace_back(one.scene);
  if (one.kind == "at") return json;
  if (one.kind != "scene") json.emplace_back(one.yes);
  json.emplace_back(one.by);
  return json;
}

size_t people_in(std::string_view kind) {
  if (kind == "tells" || kind == "scene" || kind == "at") return 1;
  return kind == "one_of" ? 3 : kind == "says" || kind == "same" ? 2 : 0;
}

Statement read_statement(const nlohmann::json& json, int64_t people) {
  constexpr std::string_view kWhat = "a statement of \"statements\"";
  list_of(json, 2, 6, kWhat, kTask.key);
  Statement one{.kind = text_of(json[0], kWhat, kTask.key)};
  const size_t count = people_in(one.kind);
  const size_t size = 1 + count + (one.kind == "at" ? 0 : 2);
  if (count == 0 || json.size() != size)
    refuse_given(kTask.key, "statements that are says, tells, one_of, same, scene or at, with their parts",
                 json);
  for (size_t i = 1; i <= count; ++i)
    one.people.push_back(integer_of(json[i], 0, people - 1, kWhat, kTask.key));
  if (one.kind == "at") return one;
  if (one.kind == "scene") {
    one.scene = integer_of(json[2], 0, kScenes - 1, "a scene", kTask.key);
  } else if (json[count + 1].is_boolean()) {
    one.yes = json[count + 1].get<bool>();
  } else {
    refuse_given(kTask.key, "true or false in each statement", json);
  }
  one.by = integer_of(json.back(), 0, 7, kWhat, kTask.key);
  return one;
}

// Another person than those in the list.
int64_t other_than(const std::vector<int64_t>& people, int64_t count, Draw& draw) {
  for (;;) {
    const int64_t one = draw.between(0, count - 1);
    if (std::ranges::find(people, one) == people.end()) return one;
  }
}

// What a speaker says of one other, or of several; a liar says the opposite of what is so.
Statement spoken(int64_t speaker, int64_t about, const KnobValues& knobs, const std::vector<bool>& truthful,
                 Draw& draw) {
  const auto is = [&](int64_t person) { return truthful[static_cast<size_t>(person)]; };
  Statement one{.kind = "says", .people = {speaker, about}};
  if (draw.chance(knobs["extended_percent"])) one.kind = draw.chance(50) ? "one_of" : "same";
  if (one.kind == "says") one.yes = is(about) == is(speaker);
  if (one.kind == "same") one.yes = is(about);
  if (one.kind == "one_of") {
    one.people.push_back(other_than(one.people, knobs["people"], draw));
    one.yes = (is(about) || is(one.people[2])) == is(speaker);
  }
  return one;
}

std::vector<Statement> random_statements(const KnobValues& knobs, const std::vector<bool>& truthful,
                                         Draw& draw) {
  const int64_t people = knobs["people"];
  std::vector<Statement> all;
  std::vector<bool> mentioned(static_cast<size_t>(people));
  const auto say = [&](int64_t speaker, int64_t about) {
    all.push_back(spoken(speaker, about, knobs, truthful, draw));
    for (size_t i = 1; i < all.back().people.size(); ++i)
      mentioned[static_cast<size_t>(all.back().people[i])] = true;
  };
  for (int64_t speaker = 0; speaker < people; ++speaker) {
    const int64_t part = draw.between(0, 99);
    const int64_t count = part < 10 ? 0 : part < 80 ? 1 : part < 95 ? 2 : 3;
    for (int64_t i = 0; i < count; ++i) say(speaker, other_than({speaker}, people, draw));
  }
  for (int64_t person = 0; person < people; ++person) {
    if (!mentioned[static_cast<size_t>(person)]) say(other_than({person}, people, draw), person);
  }
  return all;
}

// The narrator tells the kind of a few, and of others what means nothing.
void add_narration(const KnobValues& knobs, const std::vector<bool>& truthful, std::vector<Statement>& all,
                   Draw& draw) {
  const int64_t people = knobs["people"];
  const int64_t told = draw.between(1, std::max<int64_t>(1, people * (6 - knobs["depth"]) / 10));
  std::vector<int64_t> order(static_cast<size_t>(people));
  std::iota(order.begin(), order.end(), 0);
  draw.shuffle(order);
  for (int64_t i = 0; i < told; ++i) {
    const int64_t person = order[static_cast<size_t>(i)];
    all.push_back({.kind = "tells", .people = {person}, .yes = truthful[static_cast<size_t>(person)]});
  }
  const int64_t scenes = draw.between(1, 2 + knobs["depth"]);
  for (int64_t i = 0; i < scenes; ++i)
    all.push_back(
        {.kind = "scene", .people = {draw.between(0, people - 1)}, .scene = draw.between(0, kScenes - 1)});
  for (Statement& one : all) {
    for (size_t i = 0; i < one.people.size(); ++i)
      one.by |= draw.chance(kByPlacePercent) ? int64_t{1} << i : 0;
  }
  for (int64_t person = 0; person < people; ++person) all.push_back({.kind = "at", .people = {person}});
  draw.shuffle(all);
}

std::vector<std::string> some_words(std::span<const Word> table, size_t count, Draw& draw) {
  std::vector<Word> words(table.begin(), table.end());
  std::vector<std::string> some;
  for (size_t i = 0; i < count; ++i) {
    std::swap(words[i], words[i + draw.below(words.size() - i)]);
    some.emplace_back(words[i].english);
  }
  return some;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  const auto people = static_cast<size_t>(knobs["people"]);
  Given puzzle{.people = some_words(names(), people, draw), .places = some_words(places(), people, draw)};
  std::vector<bool> truthful;
  for (size_t i = 0; i < people; ++i) truthful.push_back(draw.chance(50));
  puzzle.statements = random_statements(knobs, truthful, draw);
  add_narration(knobs, truthful, puzzle.statements, draw);
  const std::optional<Kinds> kinds = decided_kinds(puzzle);
  if (!kinds) return std::nullopt;
  std::vector<int64_t> candidates;  // decided, and not by the narrator alone
  for (size_t i = 0; i < people; ++i) {
    const bool told = std::ranges::any_of(puzzle.statements, [&](const Statement& one) {
      return one.kind == "tells" && one.people[0] == static_cast<int64_t>(i);
    });
    if ((*kinds)[i] && !told) candidates.push_back(static_cast<int64_t>(i));
  }
  draw.shuffle(candidates);
  const auto asked = static_cast<size_t>(std::min(knobs["asked"], knobs["people"] / 2));
  if (candidates.size() < asked) return std::nullopt;
  nlohmann::json given = nlohmann::json::object();
  given["people"] = puzzle.people;
  given["places"] = puzzle.places;
  nlohmann::json::array_t statements;
  statements.reserve(puzzle.statements.size());
  for (const Statement& one : puzzle.statements) statements.push_back(json_of(one));
  given["statements"] = std::move(statements);
  std::string solution;
  for (size_t i = 0; i < asked; ++i) {
    given["asked"].push_back(json_list(candidates[i], draw.chance(kByPlacePercent)));
    (solution += i > 0 ? ", " : "") += truthful[static_cast<size_t>(candidates[i])] ? "yes" : "no";
  }
  return Puzzle{.given = std::move(given), .solution = std::move(solution)};
}

std::optional<bool> read_yes_no(std::string word) {
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  if (word == "yes" || word == "是") return true;
  if (word == "no" || word == "否") return false;
  return std::nullopt;
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const Given puzzle = read_given(given);
  const std::optional<Kinds> kinds = decided_kinds(puzzle);
  if (payload.size() > 4 && payload.starts_with("**") && payload.ends_with("**"))
    payload = payload.substr(2, payload.size() - 4);
  std::vector<bool> answers;
  for (std::string& word : words_between(payload, ',')) {
    const std::optional<bool> yes = read_yes_no(std::move(word));
    if (!yes) return {VerdictCode::kUnreadable, "not yes or no, separated by commas"};
    answers.push_back(*yes);
  }
  if (answers.size() != puzzle.asked.size())
    return {VerdictCode::kShape,
            fmt::format("{} answers, where {} are asked for", answers.size(), puzzle.asked.size())};
  for (size_t i = 0; i < answers.size(); ++i) {
    const auto person = static_cast<size_t>(puzzle.asked[i].first);
    if (!kinds || !(*kinds)[person])
      refuse_given(kTask.key, "statements that decide who of those asked for tells the truth", given);
    if ((*kinds)[person] != answers[i])
      return {VerdictCode::kRuleBroken, fmt::format("answer {} is wrong", i + 1)};
  }
  return {};
}

std::string canonical(const nlohmann::json& given) {
  // Names and places are only names: people count in the order in which statements first speak of them.
  const Given puzzle = read_given(given);
  std::array<char, kMostPeople> names{};
  char next = 'A';
  const auto name = [&](int64_t person) {
    char& known = names[static_cast<size_t>(person)];
    if (known == 0) known = next++;
    return known;
  };
  std::string text;
  for (const Statement& one : puzzle.statements) {
    if (one.kind == "scene" || one.kind == "at") continue;
    (text += one.kind) += ' ';
    for (const int64_t person : one.people) text += name(person);
    text += one.yes ? '+' : '-';
  }
  text += '?';
  for (const auto& [person, by_place] : puzzle.asked) text += name(person);
  return text;
}

Puzzle in_language(Puzzle puzzle, Language language) {
  if (language == Language::kEnglish) return puzzle;
  std::string told;
  for (const std::string& word : words_between(puzzle.solution, ','))
    told += fmt::format("{}{}", told.empty() ? "" : ", ", word == "yes" ? "是" : "否");
  puzzle.solution = told;
  return puzzle;
}

}  // namespace

Given read_given(const nlohmann::json& given) {
  Given puzzle;
  for (const auto& [key, words] :
       {std::pair("people", &puzzle.people), std::pair("places", &puzzle.places)}) {
    for (const nlohmann::json& word :
         list_of(member_of(given, key, kTask.key), 1, kMostPeople, key, kTask.key)) {
      if (!word_in(text_of(word, key, kTask.key), Language::kEnglish))
        refuse_given(kTask.key, "names and places that our tables hold", word);
      words->push_back(word.get<std::string>());
    }
  }
  if (puzzle.people.size() != puzzle.places.size())
    refuse_given(kTask.key, "\"places\": one for each person", given["places"]);
  const auto people = static_cast<int64_t>(puzzle.people.size());
  for (const nlohmann::json& one :
       list_of(member_of(given, "statements", kTask.key), 1, kMostStatements, "\"statements\"", kTask.key))
    puzzle.statements.push_back(read_statement(one, people));
  for (const nlohmann::json& one :
       list_of(member_of(given, "asked", kTask.key), 1, kMostPeople, "\"asked\"", kTask.key)) {
    if (!one.is_array() || one.size() != 2 || !one[1].is_boolean())
      refuse_given(kTask.key, "\"asked\": pairs of a person and true or false", one);
    puzzle.asked.emplace_back(integer_of(one[0], 0, people - 1, "a person asked for", kTask.key),
                              one[1].get<bool>());
  }
  return puzzle;
}

const TaskEntry kTask = {.key = "web_of_lies",
                         .title = "Who of people that speak of each other tells the truth",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical,
                         .in_language = in_language};

}  // namespace longhaul::puzzles::web_of_lies
