// SumTree: the order in which the micro-batches of a step are added up (train.elastic; docs/design/elastic.md): one binary tree over their
// indices 0 … n−1 of the whole step, whoever computes them. A node of level l and index i is the sum of leaves i·2^l … (i+1)·2^l − 1; where there
// are no leaves on the right it is what stands on the left. So the sum of n leaves is that of the first 2^k, the largest power of two below n,
// plus that of the rest.
//
// Whoever has a run of leaves adds up the nodes that lie in it, which are few, as a binary counter does: a list of sums, each of which waits for
// its right neighbour. Lists of neighbouring runs, put one behind the other, are added up in the same way. Pure functions of integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::layout {

struct TreeNode {
  int64_t level = 0, index = 0;
  bool operator==(const TreeNode&) const = default;
};

class SumTree {
 public:
  explicit SumTree(int64_t leaves);
  int64_t leaves() const { return leaves_; }

  // A node that comes behind those that wait: how many of them, from the last one back, it is added to, one after the other, and the node that
  // this makes.
  struct Joined {
    size_t joined = 0;
    TreeNode node;
  };
  Joined join(std::span<const TreeNode> waiting, TreeNode next) const;

  // Of the leaves [begin, end): the nodes that are left, in order, and the most sums that wait while they are added up one by one, the one that
  // has just come not counted.
  struct Run {
    std::vector<TreeNode> nodes;
    int64_t most_waiting = 0;
  };
  Run run(int64_t begin, int64_t end) const;

 private:
  int64_t leaves_ = 1;
};

double sum_in_tree(std::span<const double> leaves);  // 0 of none

}  // namespace longhaul::layout
