#include "puzzles/word_sorting_mistake/trace.h"

#include <algorithm>
#include <map>

namespace longhaul::puzzles::word_sorting_mistake {

State first_state(const std::vector<std::string>& words) { return {{words}, {0}}; }

std::optional<size_t> next_group(const State& state) {
  for (size_t group = 0; group < state.groups.size(); ++group) {
    const auto goes_on = [&](const std::string& word) {
      return static_cast<int64_t>(word.size()) > state.depth[group];
    };
    if (state.groups[group].size() > 1 && std::ranges::any_of(state.groups[group], goes_on)) return group;
  }
  return std::nullopt;
}

Thought places_of(const State& state, size_t group) {
  Thought thought{.letter = state.depth[group] + 1};
  for (const std::string& word : state.groups[group]) {
    const bool ended = static_cast<int64_t>(word.size()) < thought.letter;
    const char letter = ended ? '-' : word[static_cast<size_t>(thought.letter) - 1];
    thought.places.push_back({word, std::string(1, letter), ended ? 0 : letter - 'a' + 1});
  }
  return thought;
}

State ordered(const State& state, size_t group, const std::vector<Place>& places) {
  State next;
  for (size_t i = 0; i < state.groups.size(); ++i) {
    if (i != group) {
      next.groups.push_back(state.groups[i]);
      next.depth.push_back(state.depth[i]);
      continue;
    }
    std::map<int64_t, std::vector<std::string>> by_number;
    for (const Place& place : places) by_number[place.number].push_back(place.word);
    for (auto& [number, words] : by_number) {
      next.groups.push_back(std::move(words));
      next.depth.push_back(state.depth[i] + 1);
    }
  }
  return next;
}

int64_t first_mistake(const Trace& trace) {
  State state = first_state(trace.words);
  int64_t number = 0;
  // Most are equal as they stand.
  const auto same_places = [](std::vector<Place> a, std::vector<Place> b) {
    for (std::vector<Place>* places : {&a, &b})
      std::ranges::sort(*places, {},
                        [](const Place& place) { return std::tie(place.word, place.letter, place.number); });
    return a == b;
  };
  const auto same_groups = [](Groups a, Groups b) {
    for (Groups* groups : {&a, &b}) {
      for (std::vector<std::string>& group : *groups) std::ranges::sort(group);
    }
    return a == b;
  };
  for (size_t i = 0; i < trace.thoughts.size(); i += 2) {
    const std::optional<size_t> group = next_group(state);
    const Thought& places = trace.thoughts[i];
    ++number;
    if (!group) return number;  // a thought about nothing
    const Thought right = places_of(state, *group);
    if (places.letter != right.letter ||
        (places.places != right.places && !same_places(places.places, right.places)))
      return number;
    if (i + 1 == trace.thoughts.size()) return 0;
    ++number;
    state = ordered(state, *group, places.places);
    const Groups& order = trace.thoughts[i + 1].order;
    if (order != state.groups && !same_groups(order, state.groups)) return number;
  }
  return 0;
}

}  // namespace longhaul::puzzles::word_sorting_mistake
