// Replicas: the ranks whose nodes keep copies of what another rank has saved in its node's memory, so that
// the loss of a node never loses the only copy.
//
// The partner of (pp, dp, tp) is (pp + PP/2, dp + DP/2, tp), modulo the sizes. It shares no pipeline, data or
// tensor group with it, because ranks that share a group often fail together (ByteRobust, arXiv 2509.16293,
// figure 9). Where this is not on another node (one stage, one replica, or a node that holds both), the rank
// at the same place of another node is taken: the nearest of those that share the fewest groups, including
// expert and context groups. Each rank keeps as many copies as its own state has. Pure functions of integers.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "layout/mesh.h"

namespace longhaul::layout {

// For each rank the ranks that keep its copies: `copies` of them, or as many as there are other nodes; all
// are on different nodes, and none on the rank's. node_of_rank: numbers that say which ranks are on one node.
// A mesh with fewer ranks (one of several islands) says nothing about groups.
std::vector<std::vector<int64_t>> replica_holders(const Mesh& mesh, std::span<const int64_t> node_of_rank,
                                                  int64_t copies);

// SharedGroups: the groups of the mesh that contain both of two ranks: groups of ranks that differ along one
// axis, of the dense side or the experts'. Groups other than data parallel count first, because what the
// partner holds besides is lost with it.
struct SharedGroups {
  int64_t others = 0, of_copies = 0;
  auto operator<=>(const SharedGroups&) const = default;
};
SharedGroups shared_groups(const Mesh& mesh, int64_t a, int64_t b);

}  // namespace longhaul::layout
