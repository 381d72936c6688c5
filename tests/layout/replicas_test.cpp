// Who keeps whose copies: the published example, and for many meshes on many nodes what the rule is for: no
// copy on the owner's node, none twice on a node, every rank with as many to keep as the others.
#include "layout/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace longhaul::layout {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> nodes_of(int64_t ranks, int64_t a_node) {
  std::vector<int64_t> nodes;
  for (int64_t rank = 0; rank < ranks; ++rank) nodes.push_back(100 - rank / a_node);  // any numbers
  return nodes;
}

// ByteRobust's figure 9: TP 2, PP 4, DP 2, two ranks a machine: rank 8 keeps its copy at 2, rank 9 at 3.
TEST(Replicas, ThePublishedExample) {
  const Mesh mesh(16, {.pp = 4, .tp = 2});
  const auto holders = replica_holders(mesh, nodes_of(16, 2), 1);
  EXPECT_THAT(holders[8], ElementsAre(2));
  EXPECT_THAT(holders[9], ElementsAre(3));
  for (int64_t rank = 0; rank < 16; ++rank)
    EXPECT_EQ(shared_groups(mesh, rank, holders[static_cast<size_t>(rank)][0]), SharedGroups()) << rank;
}

TEST(Replicas, WithoutStagesTheNextNodeKeepsThem) {
  EXPECT_THAT(replica_holders(Mesh(4, {}), nodes_of(4, 1), 1),
              ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3), ElementsAre(0)));
  EXPECT_THAT(replica_holders(Mesh(4, {.tp = 2}), nodes_of(4, 2), 1),
              ElementsAre(ElementsAre(2), ElementsAre(3), ElementsAre(0), ElementsAre(1)));
}

// Nodes of unequal size: places that are not there wrap around.
TEST(Replicas, OfUnequalNodes) {
  const std::vector<int64_t> nodes = {7, 7, 7, 3};
  EXPECT_THAT(replica_holders(Mesh(4, {}), nodes, 1),
              ElementsAre(ElementsAre(3), ElementsAre(3), ElementsAre(3), ElementsAre(0)));
}

// One node has nobody else; two nodes have one copy however many are asked for.
TEST(Replicas, AsManyCopiesAsThereAreOtherNodes) {
  EXPECT_THAT(replica_holders(Mesh(4, {}), nodes_of(4, 4), 2), ::testing::Each(::testing::IsEmpty()));
  EXPECT_THAT(replica_holders(Mesh(4, {}), nodes_of(4, 2), 2), ::testing::Each(::testing::SizeIs(1)));
}

// Expert groups are left where that is possible: ranks 0–3 are one expert group over two nodes, so is 4–7;
// two nodes on stands the other one.
TEST(Replicas, LeaveTheExpertGroup) {
  const Mesh mesh(8, {.ep = 4});
  const auto holders = replica_holders(mesh, nodes_of(8, 2), 1);
  const auto group_of = [&](int64_t rank) { return mesh.coordinate(rank, Axis::kEdp); };
  for (int64_t rank = 0; rank < 8; ++rank) {
    EXPECT_NE(group_of(rank), group_of(holders[static_cast<size_t>(rank)][0])) << rank;
  }
}

TEST(Replicas, OnAnyMeshAndNodesNoCopyStandsBesideAnother) {
  const MeshShape shapes[] = {{},
                              {.pp = 2},
                              {.pp = 4},
                              {.tp = 2},
                              {.pp = 2, .tp = 2},
                              {.cp = 2, .ep = 2},
                              {.pp = 2, .ep = 2, .etp = 2}};
  for (const int64_t world : {8, 16, 32}) {
    for (const MeshShape& shape : shapes) {
      const Mesh mesh(world, shape);
      for (const int64_t a_node : {1, 2, 4, 8}) {
        for (const int64_t copies : {1, 2, 3}) {
          const auto nodes = nodes_of(world, a_node);
          const auto holders = replica_holders(mesh, nodes, copies);
          std::vector<int64_t> keeps(static_cast<size_t>(world), 0);
          for (size_t rank = 0; rank < holders.size(); ++rank) {
            std::set<int64_t> there = {nodes[rank]};
            for (const int64_t holder : holders[rank]) {
              EXPECT_TRUE(there.insert(nodes[static_cast<size_t>(holder)]).second)
                  << mesh.text() << " rank " << rank;
              ++keeps[static_cast<size_t>(holder)];
            }
            EXPECT_EQ(static_cast<int64_t>(there.size()), 1 + std::min(copies, world / a_node - 1))
                << mesh.text();
          }
          EXPECT_THAT(keeps, ::testing::Each(keeps[0])) << mesh.text();
        }
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::layout
