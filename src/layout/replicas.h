// Replicas: which ranks' nodes keep copies of what a rank has saved in its node's memory, so that no node that is lost takes the only copy
// along.
//
// The partner of (pp, dp, tp) is (pp + PP/2, dp + DP/2, tp), modulo the sizes: it shares no pipeline, data or tensor group with it, for
// what shares a group often fails together (ByteRobust, arXiv 2509.16293, figure 9). Where that does not lead to another node (one stage,
// one replica, or a node that holds both) the rank at the same place of another node is taken: the nearest of those that share the fewest
// groups, expert and context groups included. Each rank keeps as many copies as its own has. Pure functions of integers.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "layout/mesh.h"

namespace longhaul::layout {

// For each rank those that keep its copies: `copies` of them, or as many as there are other nodes; all on nodes of their own, none on the
// rank's. node_of_rank: numbers that say which ranks stand on one node. A mesh of fewer ranks (one of several workers) says nothing of
// groups.
std::vector<std::vector<int64_t>> replica_holders(const Mesh& mesh, std::span<const int64_t> node_of_rank, int64_t copies);

// Groups of the mesh that two ranks both stand in: those of ranks that differ along one axis, of the dense side or the experts'. Whoever
// shares a group of another kind than data parallel counts first: what he holds besides is lost with him.
struct SharedGroups {
  int64_t others = 0, of_copies = 0;
  auto operator<=>(const SharedGroups&) const = default;
};
SharedGroups shared_groups(const Mesh& mesh, int64_t a, int64_t b);

}  // namespace longhaul::layout
