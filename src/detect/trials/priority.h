// Learns which metric to examine first, from labelled cases. The features are, for windows of eight seconds,
// the largest z-score of any machine in each raw metric; a decision tree (CART, Gini) separates windows with
// a fault from those without; metrics nearer its root tell more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detect/trials/tune.h"

namespace longhaul::detect {

struct TreeOptions {
  int depth = 5;
  int64_t leaf = 20;  // examples that a leaf must hold
};

struct TreeNode {
  int32_t feature = -1;  // -1: a leaf
  double limit = 0;      // values up to it go left
  int32_t left = -1, right = -1;
  int depth = 0;
  double gain = 0;   // decrease of Gini impurity by the split, weighted by its share of all examples
  double share = 0;  // share of its examples that are positive
};

// features: [example][count]
std::vector<TreeNode> grow_tree(std::span<const float> features, std::span<const uint8_t> labels,
                                int64_t count, const TreeOptions& options = {});

// Orders features by the depth of their first use, ties by their total gain; unused features are left out.
std::vector<size_t> order_by(const std::vector<TreeNode>& tree, int64_t count);

// Sets the models' priority: the metrics that the tree uses, then the rest in the paper's order.
void learn_priority(Models& models, const std::vector<LabelledCase>& cases);

}  // namespace longhaul::detect
