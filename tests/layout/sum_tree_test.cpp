// The tree of sums beside its definition: which leaves a node has, and that any cut of the leaves into runs
// gives the whole tree.
#include "layout/sum_tree.h"

#include <gtest/gtest.h>

#include <string>

namespace longhaul::layout {
namespace {

// "((0 1) (2 3))": the first half is the largest power of two below the number.
std::string text_of_whole(int64_t first, int64_t leaves) {
  if (leaves == 1) return std::to_string(first);
  int64_t left = 1;
  while (2 * left < leaves) left *= 2;
  return "(" + text_of_whole(first, left) + " " + text_of_whole(first + left, leaves - left) + ")";
}

// What a list of texts becomes when nodes come one by one.
struct Texts {
  std::vector<TreeNode> nodes;
  std::vector<std::string> texts;
  void add(const SumTree& tree, TreeNode node, std::string text) {
    const auto [joined, made] = tree.join(nodes, node);
    for (size_t i = 0; i < joined; ++i) {
      text = "(" + texts.back() + " " + text + ")";
      texts.pop_back();
      nodes.pop_back();
    }
    nodes.push_back(made);
    texts.push_back(text);
  }
};

TEST(SumTree, AnyRunsOfLeavesMakeTheSameTree) {
  for (int64_t leaves = 1; leaves <= 33; ++leaves) {
    const SumTree tree(leaves);
    for (int64_t runs = 1; runs <= leaves; ++runs) {
      Texts all;
      for (int64_t r = 0; r < runs; ++r) {
        const int64_t begin = leaves * r / runs, end = leaves * (r + 1) / runs;
        Texts own;
        for (int64_t leaf = begin; leaf < end; ++leaf) own.add(tree, {0, leaf}, std::to_string(leaf));
        EXPECT_EQ(own.nodes, tree.run(begin, end).nodes);
        for (size_t n = 0; n < own.nodes.size(); ++n) all.add(tree, own.nodes[n], own.texts[n]);
      }
      ASSERT_EQ(all.texts.size(), 1u) << leaves << " leaves in " << runs;
      EXPECT_EQ(all.texts[0], text_of_whole(0, leaves)) << runs;
    }
  }
}

TEST(SumTree, APowerOfTwoNeedsItsLogarithm) {
  for (int64_t level = 0; level <= 10; ++level) {
    const int64_t leaves = int64_t{1} << level;
    EXPECT_EQ(SumTree(leaves).run(0, leaves).most_waiting, level);
    EXPECT_EQ(SumTree(4 * leaves).run(2 * leaves, 3 * leaves).nodes, (std::vector<TreeNode>{{level, 2}}));
  }
  EXPECT_EQ(SumTree(6).run(0, 3).nodes, (std::vector<TreeNode>{{1, 0}, {0, 2}}));
  EXPECT_EQ(SumTree(6).run(3, 6).nodes, (std::vector<TreeNode>{{0, 3}, {2, 1}}))
      << "4 and 5, where 6 and 7 are not";
}

TEST(SumTree, NumbersAreAddedInItsOrder) {
  const double big = 9007199254740992.0;  // 2^53: one more is lost
  EXPECT_EQ(sum_in_tree(std::vector<double>{big, 1, 1, 1}), big + 2) << "(2^53 + 1) + (1 + 1)";
  EXPECT_EQ(sum_in_tree(std::vector<double>{1, 1, big, 1, 1}), (2 + big) + 1);
  EXPECT_EQ(sum_in_tree(std::vector<double>{3}), 3);
  EXPECT_EQ(sum_in_tree({}), 0);
}

}  // namespace
}  // namespace longhaul::layout
