#include "detect/trials/priority.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace longhaul::detect {
namespace {

TEST(Tree, FindsTheTellingFeatureFirst) {
  const RandomStream stream(1, "tree");
  std::vector<float> features;
  std::vector<uint8_t> labels;
  for (uint64_t i = 0; i < 600; ++i) {
    const bool faulty = i % 3 == 0;
    labels.push_back(faulty);
    features.push_back(static_cast<float>(stream.uniform(4 * i)));
    // half of the faults
    features.push_back(static_cast<float>(stream.uniform(4 * i + 1) + (faulty && i % 2 == 0 ? 2 : 0)));
    features.push_back(
        // the other half, clearer by nothing
        static_cast<float>(stream.uniform(4 * i + 2) + (faulty && i % 6 != 0 ? 3 : 0)));
  }
  const auto tree = grow_tree(features, labels, 3, {.leaf = 20});
  const auto order = order_by(tree, 3);
  ASSERT_GE(order.size(), 2u);
  EXPECT_NE(order[0], 0u);
  EXPECT_NE(order[1], 0u);
  // 1/5 and 1
  EXPECT_NEAR(tree[static_cast<size_t>(tree[0].left)].share + tree[static_cast<size_t>(tree[0].right)].share,
              1.2, 0.05);
}

// Features of one depth stand by what all their nodes gained together: 0.2 + 0.1 against 0.25.
TEST(Tree, GainsOfAFeatureAddUp) {
  const auto node = [](int32_t feature, int depth, double gain) {
    TreeNode made{.depth = depth};
    made.feature = feature, made.gain = gain;
    return made;
  };
  EXPECT_EQ(order_by({node(2, 0, 0.5), node(0, 1, 0.2), node(0, 2, 0.1), node(1, 1, 0.25)}, 3),
            (std::vector<size_t>{2, 0, 1}));
}

}  // namespace
}  // namespace longhaul::detect
