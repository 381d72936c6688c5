#include "layout/sum_tree.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace longhaul::layout {

SumTree::SumTree(int64_t leaves) : leaves_(leaves) {
  LONGHAUL_ASSERT(leaves >= 1, "a tree over {} micro-batches", leaves);
}

SumTree::Joined SumTree::join(std::span<const TreeNode> waiting, TreeNode next) const {
  Joined result{0, next};
  TreeNode& node = result.node;
  const auto holds_all = [&] { return node.index == 0 && (int64_t{1} << node.level) >= leaves_; };
  while (!holds_all()) {
    const bool left = node.index % 2 == 0;
    if (left && (node.index + 1) << node.level < leaves_) break;  // it waits for its right neighbour
    if (!left) {
      const TreeNode neighbour{node.level, node.index - 1};
      // elsewhere
      if (result.joined == waiting.size() || waiting[waiting.size() - 1 - result.joined] != neighbour) break;
      ++result.joined;
    }
    node = {node.level + 1, node.index / 2};
  }
  return result;
}

SumTree::Run SumTree::run(int64_t begin, int64_t end) const {
  LONGHAUL_ASSERT(0 <= begin && begin <= end && end <= leaves_, "[{}, {}) of {}", begin, end, leaves_);
  Run result;
  for (int64_t leaf = begin; leaf < end; ++leaf) {
    result.most_waiting = std::max(result.most_waiting, static_cast<int64_t>(result.nodes.size()));
    const Joined joined = join(result.nodes, {0, leaf});
    result.nodes.resize(result.nodes.size() - joined.joined);
    result.nodes.push_back(joined.node);
  }
  return result;
}

double sum_in_tree(std::span<const double> leaves) {
  if (leaves.empty()) return 0;
  if (leaves.size() == 1) return leaves[0];
  const size_t left = std::bit_floor(leaves.size() - 1);
  return sum_in_tree(leaves.first(left)) + sum_in_tree(leaves.subspan(left));
}

}  // namespace longhaul::layout
