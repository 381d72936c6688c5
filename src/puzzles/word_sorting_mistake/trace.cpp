#include "puzzles/word_sorting_mistake/trace.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace longhaul::puzzles::word_sorting_mistake {

State first_state(const std::vector<std::string_view>& words) { return {{words}, {0}}; }

std::optional<size_t> next_group(const State& state) {
  for (size_t group = 0; group < state.groups.size(); ++group) {
    const auto goes_on = [&](std::string_view word) {
      return static_cast<int64_t>(word.size()) > state.depth[group];
    };
    if (state.groups[group].size() > 1 && std::ranges::any_of(state.groups[group], goes_on)) return group;
  }
  return std::nullopt;
}

std::string_view letter_of(int64_t number) {
  return std::string_view("-abcdefghijklmnopqrstuvwxyz").substr(static_cast<size_t>(number), 1);
}

Thought places_of(const State& state, size_t group) {
  Thought thought{.letter = state.depth[group] + 1};
  thought.places.reserve(state.groups[group].size());
  for (const std::string_view word : state.groups[group]) {
    const bool ended = static_cast<int64_t>(word.size()) < thought.letter;
    const int64_t number = ended ? 0 : word[static_cast<size_t>(thought.letter) - 1] - 'a' + 1;
    thought.places.push_back({word, letter_of(number), number});
  }
  return thought;
}

void order_group(State& state, size_t group, const std::vector<Place>& places) {
  std::vector<std::pair<int64_t, std::string_view>> order;
  order.reserve(places.size());
  for (const Place& place : places) order.emplace_back(place.number, place.word);
  std::ranges::stable_sort(order, {}, &std::pair<int64_t, std::string_view>::first);
  Groups parts;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || order[i].first != order[i - 1].first) parts.emplace_back();
    parts.back().push_back(order[i].second);
  }
  const auto place = static_cast<int64_t>(group);
  const int64_t depth = state.depth[group] + 1;
  state.depth.erase(state.depth.begin() + place);
  state.depth.insert(state.depth.begin() + place, parts.size(), depth);
  state.groups.erase(state.groups.begin() + place);
  state.groups.insert(state.groups.begin() + place, std::move_iterator(parts.begin()),
                      std::move_iterator(parts.end()));
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
      for (std::vector<std::string_view>& group : *groups) std::ranges::sort(group);
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
    order_group(state, *group, places.places);
    const Groups& order = trace.thoughts[i + 1].order;
    if (order != state.groups && !same_groups(order, state.groups)) return number;
  }
  return 0;
}

}  // namespace longhaul::puzzles::word_sorting_mistake
