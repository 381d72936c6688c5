#include "layout/replicas.h"

#include <algorithm>
#include <set>

namespace longhaul::layout {
namespace {

using Holders = std::vector<std::vector<int64_t>>;

std::vector<std::vector<int64_t>> ranks_by_node(std::span<const int64_t> node_of_rank) {
  std::vector<int64_t> numbers;  // of nodes, in the order of their first ranks
  std::vector<std::vector<int64_t>> ranks;
  for (size_t rank = 0; rank < node_of_rank.size(); ++rank) {
    const auto found = std::ranges::find(numbers, node_of_rank[rank]);
    if (found == numbers.end()) {
      numbers.push_back(node_of_rank[rank]);
      ranks.push_back({static_cast<int64_t>(rank)});
    } else {
      ranks[static_cast<size_t>(found - numbers.begin())].push_back(static_cast<int64_t>(rank));
    }
  }
  return ranks;
}

int64_t partner_on_mesh(const Mesh& mesh, int64_t rank, int64_t copy, int64_t copies) {
  const auto moved = [&](Axis axis) {
    const int64_t size = mesh.size(axis);
    return (mesh.coordinate(rank, axis) + copy * size / (copies + 1)) % size;
  };
  using enum Axis;
  return mesh.rank_at({{kPp, moved(kPp)},
                       {kDp, moved(kDp)},
                       {kCp, mesh.coordinate(rank, kCp)},
                       {kTp, mesh.coordinate(rank, kTp)}});
}

// Empty where some rank would have two copies on one node.
Holders by_mesh(const Mesh& mesh, std::span<const int64_t> node_of_rank, int64_t copies) {
  if (mesh.size(Axis::kPp) == 1 || mesh.size(Axis::kDp) == 1) return {};
  Holders holders(node_of_rank.size());
  for (size_t rank = 0; rank < holders.size(); ++rank) {
    std::set<int64_t> nodes = {node_of_rank[rank]};
    for (int64_t copy = 1; copy <= copies; ++copy) {
      const int64_t partner = partner_on_mesh(mesh, static_cast<int64_t>(rank), copy, copies);
      if (!nodes.insert(node_of_rank[static_cast<size_t>(partner)]).second) return {};
      holders[rank].push_back(partner);
    }
  }
  return holders;
}

// The ranks `distance` nodes further on, each at the same place of its node.
std::vector<int64_t> further_on(const std::vector<std::vector<int64_t>>& nodes, size_t ranks,
                                size_t distance) {
  std::vector<int64_t> partners(ranks);
  for (size_t node = 0; node < nodes.size(); ++node) {
    const auto& there = nodes[(node + distance) % nodes.size()];
    for (size_t place = 0; place < nodes[node].size(); ++place) {
      partners[static_cast<size_t>(nodes[node][place])] = there[place % there.size()];
    }
  }
  return partners;
}

Holders by_node(const Mesh& mesh, const std::vector<std::vector<int64_t>>& nodes, size_t ranks,
                int64_t copies) {
  const bool knows_groups = static_cast<size_t>(mesh.world()) == ranks;
  struct Distance {
    SharedGroups shared;  // all ranks' together
    size_t nodes;
  };
  std::vector<Distance> distances;
  for (size_t distance = 1; distance < nodes.size(); ++distance) {
    Distance& next = distances.emplace_back(Distance{{}, distance});
    const std::vector<int64_t> partners = further_on(nodes, ranks, distance);
    for (size_t rank = 0; knows_groups && rank < ranks; ++rank) {
      const SharedGroups shared = shared_groups(mesh, static_cast<int64_t>(rank), partners[rank]);
      next.shared.of_copies += shared.of_copies;
      next.shared.others += shared.others;
    }
  }
  std::ranges::stable_sort(distances,
                           [](const Distance& a, const Distance& b) { return a.shared < b.shared; });
  Holders holders(ranks);
  for (size_t copy = 0; copy < static_cast<size_t>(copies); ++copy) {
    const std::vector<int64_t> partners = further_on(nodes, ranks, distances[copy].nodes);
    for (size_t rank = 0; rank < ranks; ++rank) holders[rank].push_back(partners[rank]);
  }
  return holders;
}

}  // namespace

SharedGroups shared_groups(const Mesh& mesh, int64_t a, int64_t b) {
  const auto of_a = mesh.coordinates(a), of_b = mesh.coordinates(b);
  SharedGroups shared;
  for (const AxisSet side : {kDenseAxes, kExpertAxes}) {
    std::vector<Axis> along = side.axes();
    std::erase_if(
        along, [&](Axis axis) { return of_a[static_cast<size_t>(axis)] == of_b[static_cast<size_t>(axis)]; });
    if (along.size() > 1) continue;
    const bool copies = along.empty() || along[0] == Axis::kDp || along[0] == Axis::kEdp;
    ++(copies ? shared.of_copies : shared.others);
  }
  return shared;
}

std::vector<std::vector<int64_t>> replica_holders(const Mesh& mesh, std::span<const int64_t> node_of_rank,
                                                  int64_t copies) {
  const auto nodes = ranks_by_node(node_of_rank);
  copies = std::min(copies, static_cast<int64_t>(nodes.size()) - 1);
  if (copies <= 0) return Holders(node_of_rank.size());
  if (static_cast<size_t>(mesh.world()) == node_of_rank.size()) {
    if (Holders holders = by_mesh(mesh, node_of_rank, copies); !holders.empty()) return holders;
  }
  return by_node(mesh, nodes, node_of_rank.size(), copies);
}

}  // namespace longhaul::layout
