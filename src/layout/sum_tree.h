// SumTree: the order in which the micro-batches of a step are summed (train.elastic; docs/design/elastic.md):
// one binary tree over their indices 0 … n−1 of the whole step, whichever rank computes them. A node of level
// l and index i is the sum of leaves i·2^l … (i+1)·2^l − 1; if there are no leaves in its right half, it
// equals its left half. So the sum of n leaves is that of the first 2^k, the largest power of two below n,
// plus that of the rest.
//
// A rank with a run of leaves sums the nodes inside the run, as a binary counter does; only few sums remain:
// a list of sums, each of which waits for its right neighbour. Concatenated lists of neighbouring runs are
// summed in the same way. Pure functions of integers.
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

  // Joins a node to those that wait: the number of waiting nodes, from the last one back, to which it is
  // added one after the other, and the resulting node.
  struct Joined {
    size_t joined = 0;
    TreeNode node;
  };
  Joined join(std::span<const TreeNode> waiting, TreeNode next) const;

  // For the leaves [begin, end): the remaining nodes, in order, and the largest number of sums that wait
  // while the leaves are added one by one, not counting the newest.
  struct Run {
    std::vector<TreeNode> nodes;
    int64_t most_waiting = 0;
  };
  Run run(int64_t begin, int64_t end) const;

 private:
  int64_t leaves_ = 1;
};

double sum_in_tree(std::span<const double> leaves);  // 0 for an empty list

}  // namespace longhaul::layout
