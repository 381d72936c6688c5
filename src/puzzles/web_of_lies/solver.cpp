#include <algorithm>
#include <numeric>

#include "puzzles/web_of_lies/web_of_lies.h"

namespace longhaul::puzzles::web_of_lies {
namespace {

constexpr size_t kMostFree = 14;  // groups that are tried both ways at once

// People in groups that are known relative to each other: alike, or opposite. The last of all is one who
// tells the truth.
class Groups {
 public:
  explicit Groups(size_t count) : above_(count), opposite_(count) {
    std::iota(above_.begin(), above_.end(), 0);
  }

  struct Place {
    size_t root = 0;
    bool opposite = false;
  };
  Place find(size_t one) const {
    Place place{one, false};
    while (above_[place.root] != place.root) {
      place.opposite = place.opposite != opposite_[place.root];
      place.root = above_[place.root];
    }
    return place;
  }
  bool join(size_t a, size_t b, bool opposite) {  // false: it contradicts what is known
    const Place x = find(a), y = find(b);
    if (x.root == y.root) return (x.opposite != y.opposite) == opposite;
    above_[x.root] = y.root;
    opposite_[x.root] = (x.opposite != y.opposite) != opposite;
    return true;
  }

 private:
  std::vector<size_t> above_;
  std::vector<bool> opposite_;
};

struct Either {  // speaker == (first or second), or its opposite
  Groups::Place speaker, first, second;
  bool yes = true;
};

}  // namespace

std::optional<Kinds> decided_kinds(const Given& given) {
  const size_t count = given.people.size(), truth = count;
  Groups groups(count + 1);
  for (const Statement& one : given.statements) {
    const auto person = [&](size_t i) { return static_cast<size_t>(one.people[i]); };
    bool fits = true;
    if (one.kind == "says") fits = groups.join(person(0), person(1), !one.yes);
    if (one.kind == "tells") fits = groups.join(person(0), truth, !one.yes);
    // whoever says so: a liar's own kind is the other
    if (one.kind == "same") fits = groups.join(person(1), truth, !one.yes);
    if (!fits) return std::nullopt;
  }
  std::vector<Either> all;
  std::vector<size_t> free;  // roots whose value is tried
  const size_t known = groups.find(truth).root;
  for (const Statement& one : given.statements) {
    if (one.kind != "one_of") continue;
    Either either{.yes = one.yes};
    size_t i = 0;
    for (Groups::Place* place : {&either.speaker, &either.first, &either.second}) {
      *place = groups.find(static_cast<size_t>(one.people[i++]));
      if (place->root != known && std::ranges::find(free, place->root) == free.end())
        free.push_back(place->root);
    }
    all.push_back(either);
  }
  if (free.size() > kMostFree) return std::nullopt;
  uint32_t always = ~uint32_t{0}, ever = 0;  // bits of free roots, over all values that fit
  const bool known_is = !groups.find(truth).opposite;
  const auto value = [&](const Groups::Place& place, uint32_t set) {
    const bool root = place.root == known
                          ? known_is
                          : (set >> (std::ranges::find(free, place.root) - free.begin()) & 1) != 0;
    return root != place.opposite;
  };
  bool any = false;
  for (uint32_t set = 0; set < uint32_t{1} << free.size(); ++set) {
    const bool fits = std::ranges::all_of(all, [&](const Either& one) {
      return value(one.speaker, set) == ((value(one.first, set) || value(one.second, set)) == one.yes);
    });
    if (!fits) continue;
    any = true;
    always &= set;
    ever |= set;
  }
  if (!any) return std::nullopt;
  Kinds kinds(count);
  for (size_t i = 0; i < count; ++i) {
    const Groups::Place place = groups.find(i);
    const auto at = std::ranges::find(free, place.root) - free.begin();
    const bool is_free = static_cast<size_t>(at) < free.size();
    if (place.root == known || (is_free && (always >> at & 1) == (ever >> at & 1)))
      kinds[i] = value(place, always);
  }
  return kinds;
}

}  // namespace longhaul::puzzles::web_of_lies
