#include "comm/wrappers/wrapper.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace longhaul::comm {
namespace {

std::shared_ptr<const GroupPlace> place_of_all(const Communicator& group) {
  std::vector<int64_t> ranks(static_cast<size_t>(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_shared<GroupPlace>(GroupPlace{group.name(), std::move(ranks)});
}

// Of the group of this kind that `rank` stands in; null: in none.
std::shared_ptr<const GroupPlace> place_within(const GroupPlace& whole, const layout::GroupKind& kind,
                                               int64_t rank) {
  for (size_t number = 0; number < kind.groups.size(); ++number) {
    const std::vector<int64_t>& members = kind.groups[number];
    if (std::ranges::find(members, rank) == members.end()) continue;
    GroupPlace place{fmt::format("{}/{} {}", whole.path, kind.name, number), {}};
    for (const int64_t member : members)
      place.top_ranks.push_back(whole.top_ranks[static_cast<size_t>(member)]);
    return std::make_shared<GroupPlace>(std::move(place));
  }
  return nullptr;
}

}  // namespace

Wrapper::Wrapper(std::shared_ptr<Communicator> inner) : Wrapper(inner, place_of_all(*inner)) {}
Wrapper::Wrapper(std::shared_ptr<Communicator> inner, std::shared_ptr<const GroupPlace> place)
    : Communicator(inner->name(), inner->rank(), inner->size()),
      inner_(std::move(inner)),
      place_(std::move(place)) {}

std::vector<std::unique_ptr<Communicator>> Wrapper::start_split(Call call) {
  const std::vector<layout::GroupKind> kinds = call.kinds;
  std::vector<std::unique_ptr<Communicator>> groups = split_inner(std::move(call));
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i]) groups[i] = around(std::move(groups[i]), place_within(*place_, kinds[i], rank()));
  }
  return groups;
}

}  // namespace longhaul::comm
