#include "puzzles/word_sorting_mistake/word_sorting_mistake.h"

#include <algorithm>
#include <set>

#include "base/text/text.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/engine/answers/literal.h"
#include "puzzles/engine/given.h"
#include "puzzles/engine/words/drawn_words.h"
#include "puzzles/word_sorting_mistake/trace.h"

namespace longhaul::puzzles::word_sorting_mistake {
namespace {

constexpr size_t kMostThoughts = 60;
constexpr size_t kLongestTrace = 3'300;  // characters of text_of(): a prompt has at most some 2,000 tokens
constexpr Knob kKnobs[] = {
    {"words", 4, 40, 5, 30, "words that are sorted"},
    {"shared_percent", 0, 100, 40, 0, "percent of the words that begin like another one, with three letters"},
    {"mistake_percent", 0, 100, 90, 90, "percent of the puzzles that hold a mistake"},
    {"late_percent", 0, 100, 0, 50,
     "percent of the thoughts that come before the earliest place of a mistake"}};

// A letter or a number that is another one, or a word left out.
void spoil_places(Thought& thought, Draw& draw) {
  std::vector<Place>& places = thought.places;
  Place& place = draw.pick(places);
  switch (draw.below(places.size() > 2 ? 3 : 2)) {
    case 0:
      place.number = (place.number + draw.between(1, 26)) % 27;
      break;
    case 1: {
      const auto letter = (place.number + draw.between(1, 26)) % 27;
      place.number = letter;
      place.letter = letter == 0 ? "-" : std::string(1, static_cast<char>('a' + letter - 1));
      break;
    }
    default:
      places.erase(places.begin() + (&place - places.data()));
  }
}

// Two groups that change places or become one, a word lost or repeated.
void spoil_order(State& state, Draw& draw) {
  Groups& groups = state.groups;
  const size_t a = draw.below(groups.size());
  const bool several = groups.size() > 1;
  const size_t b = several ? (a + 1 + draw.below(groups.size() - 1)) % groups.size() : a;
  const auto remove_group = [&](size_t group) {
    groups.erase(groups.begin() + static_cast<int64_t>(group));
    state.depth.erase(state.depth.begin() + static_cast<int64_t>(group));
  };
  switch (several ? draw.below(4) : 2 + draw.below(2)) {
    case 0:
      std::swap(groups[a], groups[b]);
      std::swap(state.depth[a], state.depth[b]);
      break;
    case 1: {
      const size_t left = a + 1 < groups.size() ? a : a - 1;
      groups[left].insert(groups[left].end(), groups[left + 1].begin(), groups[left + 1].end());
      state.depth[left] = std::max(state.depth[left], state.depth[left + 1]);
      remove_group(left + 1);
      break;
    }
    case 2:
      groups[a].erase(groups[a].begin() + static_cast<int64_t>(draw.below(groups[a].size())));
      if (groups[a].empty()) remove_group(a);
      break;
    default: {
      const std::string word = draw.pick(groups[a]);
      const size_t at = draw.below(groups.size() + 1);
      groups.insert(groups.begin() + static_cast<int64_t>(at), {word});
      state.depth.insert(state.depth.begin() + static_cast<int64_t>(at), static_cast<int64_t>(word.size()));
    }
  }
}

// The thoughts of a sort. The thought with the number `wrong` is spoilt (0: none), and those after it go on
// from there.
std::vector<Thought> thoughts_of(const std::vector<std::string>& words, int64_t wrong, Draw& draw) {
  State state = first_state(words);
  std::vector<Thought> thoughts;
  while (thoughts.size() < kMostThoughts) {
    const std::optional<size_t> group = next_group(state);
    if (!group) break;
    thoughts.push_back(places_of(state, *group));
    if (static_cast<int64_t>(thoughts.size()) == wrong) spoil_places(thoughts.back(), draw);
    state = ordered(state, *group, thoughts.back().places);
    if (static_cast<int64_t>(thoughts.size()) + 1 == wrong) spoil_order(state, draw);
    thoughts.push_back({.order = state.groups});
  }
  return thoughts;
}

nlohmann::json given_of(const Trace& trace) {
  nlohmann::json thoughts = nlohmann::json::array();
  for (const Thought& thought : trace.thoughts) {
    if (thought.letter == 0) {
      thoughts.push_back({{"order", thought.order}});
      continue;
    }
    nlohmann::json places = nlohmann::json::array();
    for (const Place& place : thought.places) places.push_back({place.word, place.letter, place.number});
    thoughts.push_back({{"letter", thought.letter}, {"places", places}});
  }
  return {{"words", trace.words}, {"thoughts", thoughts}};
}

// All that a trace says, briefly.
std::string text_of(const Trace& trace) {
  std::string text;
  for (const std::string& word : trace.words) (text += word) += ' ';
  for (const Thought& thought : trace.thoughts) {
    (text += '\n') += std::to_string(thought.letter);
    for (const Place& place : thought.places)
      ((((text += ' ') += place.word) += place.letter) += ':') += std::to_string(place.number);
    for (const std::vector<std::string>& group : thought.order) {
      text += '<';
      for (const std::string& word : group) (text += ' ') += word;
    }
  }
  return text;
}

std::optional<Puzzle> generate(const KnobValues& knobs, Draw& draw) {
  Trace trace{.words = drawn_words(knobs["words"], knobs["shared_percent"], draw)};
  const auto count = static_cast<int64_t>(thoughts_of(trace.words, 0, draw).size());
  const bool mistake = draw.chance(knobs["mistake_percent"]);
  const int64_t earliest = std::min(count, 1 + count * knobs["late_percent"] / 100);
  const int64_t wrong = mistake ? draw.between(earliest, count) : 0;
  trace.thoughts = thoughts_of(trace.words, wrong, draw);
  if (first_mistake(trace) != wrong || trace.thoughts.size() >= kMostThoughts) return std::nullopt;
  if (text_of(trace).size() > kLongestTrace) return std::nullopt;
  return Puzzle{.given = given_of(trace), .solution = wrong == 0 ? "No" : std::to_string(wrong)};
}

Verdict verify(const nlohmann::json& given, std::string_view payload) {
  const int64_t key = first_mistake(read_given(given));
  const std::string_view text = trimmed(payload);
  const bool none = text == "No" || text == "no" || text == "NO";
  const std::optional<int64_t> number = read_integer(text);
  if (!none && !number) return {VerdictCode::kUnreadable, "neither the number of a thought nor No"};
  if (none && key != 0) return {VerdictCode::kRuleBroken, "there is a wrong thought"};
  if (!none && (key == 0 || *number != key))
    return {VerdictCode::kRuleBroken, fmt::format("thought {} is not the first wrong one", *number)};
  return {};
}

std::string canonical(const nlohmann::json& given) { return text_of(read_given(given)); }

bool is_word(const nlohmann::json& text) {
  return text.is_string() && !text.get_ref<const std::string&>().empty() &&
         text.get_ref<const std::string&>().size() <= 40 &&
         std::ranges::all_of(text.get_ref<const std::string&>(), [](char c) { return c >= 'a' && c <= 'z'; });
}
bool is_word_list(const nlohmann::json& list) {
  return list.is_array() && !list.empty() && list.size() <= 200 && std::ranges::all_of(list, is_word);
}
bool is_place(const nlohmann::json& place) {
  return place.is_array() && place.size() == 3 && is_word(place[0]) && place[1].is_string() &&
         place[2].is_number_integer();
}
bool is_thought(const nlohmann::json& thought, bool places) {
  if (!thought.is_object()) return false;
  if (!places)
    return thought.contains("order") && thought["order"].is_array() &&
           std::ranges::all_of(thought["order"], is_word_list);
  return thought.contains("letter") && thought["letter"].is_number_integer() && thought["letter"] > 0 &&
         thought.contains("places") && thought["places"].is_array() && thought["places"].size() <= 200 &&
         std::ranges::all_of(thought["places"], is_place);
}

}  // namespace

Trace read_given(const nlohmann::json& given) {
  constexpr std::string_view kExpected =
      "\"words\": different words of a to z, and \"thoughts\": at most 60, in turn {\"letter\": 1, "
      "\"places\": [[word, letter, number], …]} "
      "and {\"order\": lists of words}";
  if (!given.is_object() || !given.contains("words") || !is_word_list(given["words"]) ||
      !given.contains("thoughts") || !given["thoughts"].is_array() ||
      given["thoughts"].size() > kMostThoughts)
    refuse_given(kTask.key, std::string(kExpected), given);
  Trace trace{.words = given["words"].get<std::vector<std::string>>()};
  if (std::set<std::string>(trace.words.begin(), trace.words.end()).size() != trace.words.size())
    refuse_given(kTask.key, std::string(kExpected), given);
  for (const nlohmann::json& one : given["thoughts"]) {
    const bool places = trace.thoughts.size() % 2 == 0;
    if (!is_thought(one, places)) refuse_given(kTask.key, std::string(kExpected), one);
    Thought& thought = trace.thoughts.emplace_back();
    if (!places) {
      thought.order = one["order"].get<Groups>();
      continue;
    }
    thought.letter = one["letter"].get<int64_t>();
    for (const nlohmann::json& place : one["places"])
      thought.places.push_back(
          {place[0].get<std::string>(), place[1].get<std::string>(), place[2].get<int64_t>()});
  }
  return trace;
}

const TaskEntry kTask = {.key = "word_sorting_mistake",
                         .title = "Find the first mistake in a sort of words",
                         .version = 2,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::word_sorting_mistake
