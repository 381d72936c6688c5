#include "control/rank_placement.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <numeric>

namespace longhaul::control {
namespace {

int64_t ranks_in(const std::vector<NodeRanks>& placement) {
  return std::accumulate(
      placement.begin(), placement.end(), int64_t{0},
      [](int64_t sum, const NodeRanks& node) { return sum + static_cast<int64_t>(node.ranks.size()); });
}

// Nodes that remain keep their ranks; the ranks of the others go, piece by piece, to nodes with free slots.
std::optional<std::vector<NodeRanks>> keep_places(const std::vector<Place>& places,
                                                  const std::vector<NodeRanks>& before) {
  std::vector<Place> free = places;
  std::vector<NodeRanks> kept;
  std::deque<std::vector<int64_t>> homeless;
  for (const NodeRanks& old : before) {
    const auto same = std::ranges::find(free, old.node, &Place::node);
    if (same != free.end() && same->slots >= static_cast<int64_t>(old.ranks.size())) {
      kept.push_back(old);
      same->slots -= static_cast<int64_t>(old.ranks.size());
    } else {
      homeless.push_back(old.ranks);
    }
  }
  while (!homeless.empty()) {
    std::vector<int64_t> ranks = homeless.front();
    homeless.pop_front();
    const auto needed = static_cast<int64_t>(ranks.size());
    auto room = std::ranges::find_if(free, [&](const Place& place) { return place.slots >= needed; });
    if (room == free.end())
      room = std::ranges::find_if(free, [](const Place& place) { return place.slots > 0; });
    if (room == free.end()) return std::nullopt;
    const int64_t taken = std::min(needed, room->slots);
    const auto cut = ranks.begin() + taken;
    kept.push_back({.node = room->node, .ranks = {ranks.begin(), cut}});
    room->slots -= taken;
    if (taken < needed) homeless.push_front({cut, ranks.end()});
  }
  return kept;
}

// A node may have got several pieces; nodes are in the order of their first ranks.
std::vector<NodeRanks> in_order(const std::vector<NodeRanks>& pieces) {
  std::map<std::string, std::vector<int64_t>> by_node;
  for (const NodeRanks& piece : pieces)
    by_node[piece.node].insert(by_node[piece.node].end(), piece.ranks.begin(), piece.ranks.end());
  std::vector<NodeRanks> placement;
  for (auto& [node, ranks] : by_node) {
    std::ranges::sort(ranks);
    placement.push_back({.node = node, .ranks = std::move(ranks)});
  }
  std::ranges::sort(placement, {}, [](const NodeRanks& node) { return node.ranks.front(); });
  return placement;
}

}  // namespace

std::optional<std::vector<NodeRanks>> place_ranks(int64_t world, const std::vector<Place>& places,
                                                  const std::vector<NodeRanks>& before) {
  if (ranks_in(before) == world) {
    if (const auto kept = keep_places(places, before)) return in_order(*kept);
    return std::nullopt;
  }
  std::vector<NodeRanks> placement;
  int64_t next = 0;
  for (const Place& place : places) {
    NodeRanks node{.node = place.node, .ranks = {}};
    for (int64_t slot = 0; slot < place.slots && next < world; ++slot) node.ranks.push_back(next++);
    if (!node.ranks.empty()) placement.push_back(std::move(node));
  }
  return next == world ? std::optional(placement) : std::nullopt;
}

std::string node_of(const std::vector<NodeRanks>& placement, int64_t rank) {
  for (const NodeRanks& node : placement) {
    if (std::ranges::find(node.ranks, rank) != node.ranks.end()) return node.node;
  }
  return "";
}

bool natural_less(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    size_t end_a = i, end_b = j;
    while (end_a < a.size() && is_digit(a[end_a])) ++end_a;
    while (end_b < b.size() && is_digit(b[end_b])) ++end_b;
    while (i + 1 < end_a && a[i] == '0') ++i;
    while (j + 1 < end_b && b[j] == '0') ++j;
    if (end_a - i != end_b - j) return end_a - i < end_b - j;
    if (const int order = a.compare(i, end_a - i, b, j, end_b - j); order != 0) return order < 0;
    i = end_a;
    j = end_b;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;
}

}  // namespace longhaul::control
