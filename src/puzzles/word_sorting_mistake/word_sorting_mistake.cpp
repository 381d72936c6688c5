#include "puzzles/word_sorting_mistake/word_sorting_mistake.h"

#include <algorithm>

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
      place.letter = letter_of(letter);
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
      const std::string_view word = draw.pick(groups[a]);
      const size_t at = draw.below(groups.size() + 1);
      groups.insert(groups.begin() + static_cast<int64_t>(at), {word});
      state.depth.insert(state.depth.begin() + static_cast<int64_t>(at), static_cast<int64_t>(word.size()));
    }
  }
}

// The thoughts of a sort. The thought with the number `wrong` is spoilt (0: none), and those after it go on
// from there.
std::vector<Thought> thoughts_of(const std::vector<std::string_view>& words, int64_t wrong, Draw& draw) {
  State state = first_state(words);
  std::vector<Thought> thoughts;
  while (thoughts.size() < kMostThoughts) {
    const std::optional<size_t> group = next_group(state);
    if (!group) break;
    thoughts.push_back(places_of(state, *group));
    if (static_cast<int64_t>(thoughts.size()) == wrong) spoil_places(thoughts.back(), draw);
    order_group(state, *group, thoughts.back().places);
    if (static_cast<int64_t>(thoughts.size()) + 1 == wrong) spoil_order(state, draw);
    thoughts.push_back({.order = state.groups});
  }
  return thoughts;
}

nlohmann::json given_of(const Trace& trace) {
  nlohmann::json::array_t thoughts;
  thoughts.reserve(trace.thoughts.size());
  for (const Thought& thought : trace.thoughts) {
    nlohmann::json json = nlohmann::json::object();
    if (thought.letter == 0) {
      nlohmann::json::array_t order;
      order.reserve(thought.order.size());
      for (const std::vector<std::string_view>& group : thought.order)
        order.emplace_back(nlohmann::json::array_t(group.begin(), group.end()));
      json["order"] = std::move(order);
    } else {
      nlohmann::json::array_t places;
      places.reserve(thought.places.size());
      for (const Place& place : thought.places)
        places.push_back(json_list(place.word, place.letter, place.number));
      json["letter"] = thought.letter;
      json["places"] = std::move(places);
    }
    thoughts.push_back(std::move(json));
  }
  nlohmann::json given = nlohmann::json::object();
  given["words"] = nlohmann::json::array_t(trace.words.begin(), trace.words.end());
  given["thoughts"] = std::move(thoughts);
  return given;
}

// All that a trace says, briefly.
std::string text_of(const Trace& trace) {
  std::string text;
  text.reserve(kLongestTrace);
  for (const std::string_view word : trace.words) (text += word) += ' ';
  for (const Thought& thought : trace.thoughts) {
    (text += '\n') += std::to_string(thought.letter);
    for (const Place& place : thought.places)
      ((((text += ' ') += place.word) += place.letter) += ':') += std::to_string(place.number);
    for (const std::vector<std::string_view>& group : thought.order) {
      text += '<';
      for (const std::string_view word : group) (text += ' ') += word;
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

std::optional<std::string_view> word_of(const nlohmann::json& json) {
  const auto* text = json.get_ptr<const std::string*>();
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  if (text == nullptr || text->empty() || text->size() > 40 || !std::ranges::all_of(*text, is_letter))
    return std::nullopt;
  return *text;
}

bool read_words(const nlohmann::json& list, std::vector<std::string_view>& words) {
  if (!list.is_array() || list.empty() || list.size() > 200) return false;
  words.reserve(list.size());
  return std::ranges::all_of(list, [&](const nlohmann::json& one) {
    const std::optional<std::string_view> word = word_of(one);
    if (word) words.push_back(*word);
    return word.has_value();
  });
}

bool read_order(const nlohmann::json& thought, Thought& read) {
  const auto order = thought.find("order");
  if (order == thought.end() || !order->is_array()) return false;
  read.order.reserve(order->size());
  return std::ranges::all_of(
      *order, [&](const nlohmann::json& group) { return read_words(group, read.order.emplace_back()); });
}

bool read_places(const nlohmann::json& thought, Thought& read) {
  const auto letter = thought.find("letter"), places = thought.find("places");
  if (letter == thought.end() || !letter->is_number_integer() || *letter <= 0) return false;
  if (places == thought.end() || !places->is_array() || places->size() > 200) return false;
  read.letter = letter->get<int64_t>();
  read.places.reserve(places->size());
  return std::ranges::all_of(*places, [&](const nlohmann::json& place) {
    if (!place.is_array() || place.size() != 3 || !place[1].is_string() || !place[2].is_number_integer())
      return false;
    const std::optional<std::string_view> word = word_of(place[0]);
    if (word) read.places.push_back({*word, place[1].get_ref<const std::string&>(), place[2].get<int64_t>()});
    return word.has_value();
  });
}

}  // namespace

Trace read_given(const nlohmann::json& given) {
  constexpr std::string_view kExpected =
      "\"words\": different words of a to z, and \"thoughts\": at most 60, in turn {\"letter\": 1, "
      "\"places\": [[word, letter, number], …]} "
      "and {\"order\": lists of words}";
  const nlohmann::json& thoughts = member_of(given, "thoughts", kTask.key);
  Trace trace;
  if (!read_words(member_of(given, "words", kTask.key), trace.words) || !thoughts.is_array() ||
      thoughts.size() > kMostThoughts)
    refuse_given(kTask.key, std::string(kExpected), given);
  std::vector<std::string_view> words = trace.words;
  std::ranges::sort(words);
  if (std::ranges::adjacent_find(words) != words.end())
    refuse_given(kTask.key, std::string(kExpected), given);
  trace.thoughts.reserve(thoughts.size());
  for (const nlohmann::json& one : thoughts) {
    const bool places = trace.thoughts.size() % 2 == 0;
    Thought& thought = trace.thoughts.emplace_back();
    if (!one.is_object() || !(places ? read_places(one, thought) : read_order(one, thought)))
      refuse_given(kTask.key, std::string(kExpected), one);
  }
  return trace;
}

const TaskEntry kTask = {.key = "word_sorting_mistake",
                         .title = "Find the first mistake in a sort of words",
                         .version = 3,
                         .uniqueness = Uniqueness::kComputed,
                         .knobs = kKnobs,
                         .generate = generate,
                         .prompt = prompt,
                         .verify = verify,
                         .count_solutions = nullptr,
                         .canonical = canonical};

}  // namespace longhaul::puzzles::word_sorting_mistake
