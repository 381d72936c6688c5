#include "detect/trials/priority.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace longhaul::detect {
namespace {

constexpr int64_t kTreeWindow = 8, kEvery = 10;  // seconds

double gini(double positive, double all) {
  if (all == 0) return 0;
  const double p = positive / all;
  return 2 * p * (1 - p);
}

class Grower {
 public:
  Grower(std::span<const float> features, std::span<const uint8_t> labels, int64_t count,
         const TreeOptions& options)
      : features_(features), labels_(labels), count_(count), options_(options) {}

  int32_t grow(std::vector<int64_t> examples, int depth) {
    const auto at = static_cast<int32_t>(tree_.size());
    double positive = 0;
    for (const int64_t e : examples) positive += labels_[static_cast<size_t>(e)];
    tree_.push_back(
        {.depth = depth, .share = positive / static_cast<double>(std::max<size_t>(1, examples.size()))});
    if (depth >= options_.depth) return at;
    const auto [feature, limit, gain] = best_split(examples, positive);
    if (feature < 0) return at;
    std::vector<int64_t> left, right;
    for (const int64_t e : examples)
      (static_cast<double>(value(e, feature)) <= limit ? left : right).push_back(e);
    const int32_t left_at = grow(std::move(left), depth + 1), right_at = grow(std::move(right), depth + 1);
    TreeNode& node = tree_[static_cast<size_t>(at)];
    node.feature = feature, node.limit = limit, node.left = left_at, node.right = right_at;
    node.gain = gain / static_cast<double>(labels_.size());
    return at;
  }
  std::vector<TreeNode> take() { return std::move(tree_); }

 private:
  struct Split {
    int32_t feature = -1;
    double limit = 0, gain = 1e-12;
  };
  float value(int64_t example, int64_t feature) const {
    return features_[static_cast<size_t>(example * count_ + feature)];
  }

  Split best_split(std::vector<int64_t> examples, double positive) const {
    const auto all = static_cast<double>(examples.size());
    Split best;
    for (int64_t feature = 0; feature < count_; ++feature) {
      std::sort(examples.begin(), examples.end(),
                [&](int64_t a, int64_t b) { return value(a, feature) < value(b, feature); });
      double left_positive = 0;
      for (size_t i = 0; i + 1 < examples.size(); ++i) {
        left_positive += labels_[static_cast<size_t>(examples[i])];
        const auto left = static_cast<double>(i + 1), right = all - left;
        const float here = value(examples[i], feature), next = value(examples[i + 1], feature);
        if (here == next || left < static_cast<double>(options_.leaf) ||
            right < static_cast<double>(options_.leaf))
          continue;
        const double gain = all * gini(positive, all) - left * gini(left_positive, left) -
                            right * gini(positive - left_positive, right);
        if (gain > best.gain)
          best = {static_cast<int32_t>(feature), (static_cast<double>(here) + static_cast<double>(next)) / 2,
                  gain};
      }
    }
    return best;
  }

  std::span<const float> features_;
  std::span<const uint8_t> labels_;
  int64_t count_;
  TreeOptions options_;
  std::vector<TreeNode> tree_;
};

// The largest z-score over machines of the mean over a window.
float largest_score(const Pull& pull, size_t metric_at, int64_t second) {
  const int64_t n = pull.count();
  double sum = 0, square = 0, most = -std::numeric_limits<double>::infinity(), least = -most;
  int64_t present = 0;
  for (int64_t i = 0; i < n; ++i) {
    double mean = 0;
    for (int64_t t = 0; t < kTreeWindow; ++t)
      mean += static_cast<double>(pull.row(metric_at, second + t)[i]) / kTreeWindow;
    if (std::isnan(mean)) continue;
    ++present, sum += mean, square += mean * mean, most = std::max(most, mean), least = std::min(least, mean);
  }
  if (present < kFewestPeers) return 0;
  const double mean = sum / static_cast<double>(present),
               deviation =
                   std::sqrt(std::max(0.0, square / static_cast<double>(present) - mean * mean)) + 1e-6;
  return static_cast<float>(std::max(most - mean, mean - least) / deviation /
                            std::sqrt(static_cast<double>(present)));
}

}  // namespace

std::vector<TreeNode> grow_tree(std::span<const float> features, std::span<const uint8_t> labels,
                                int64_t count, const TreeOptions& options) {
  Grower grower(features, labels, count, options);
  std::vector<int64_t> all(labels.size());
  std::iota(all.begin(), all.end(), 0);
  grower.grow(std::move(all), 0);
  return grower.take();
}

std::vector<size_t> order_by(const std::vector<TreeNode>& tree, int64_t count) {
  std::vector<int> depth(static_cast<size_t>(count), std::numeric_limits<int>::max());
  std::vector<double> gain(static_cast<size_t>(count), 0);
  std::vector<size_t> order;
  for (const TreeNode& node : tree) {
    if (node.feature < 0) continue;
    const auto f = static_cast<size_t>(node.feature);
    if (gain[f] == 0) order.push_back(f);
    depth[f] = std::min(depth[f], node.depth), gain[f] += node.gain;
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return depth[a] != depth[b] ? depth[a] < depth[b] : gain[a] > gain[b];
  });
  return order;
}

void learn_priority(Models& models, const std::vector<LabelledCase>& cases) {
  const auto count = static_cast<int64_t>(models.metrics.size());
  std::vector<float> features;
  std::vector<uint8_t> labels;
  for (const LabelledCase& each : cases) {
    std::vector<std::vector<size_t>> places;
    for (const size_t metric : models.metrics)
      places.push_back(places_in(each.pull, {.name = "", .metrics = {metric}}));
    for (int64_t s = 0; s + kTreeWindow <= each.pull.seconds; s += kEvery) {
      for (const auto& place : places)
        features.push_back(place.empty() ? 0 : largest_score(each.pull, place.front(), s));
      labels.push_back(std::any_of(each.faults.begin(), each.faults.end(), [&](const Fault& fault) {
        return static_cast<double>(fault.onset_s) <= each.pull.first_s + static_cast<double>(s) &&
               each.pull.first_s + static_cast<double>(s + kTreeWindow) <= static_cast<double>(fault.end_s);
      }));
    }
  }
  std::vector<size_t> paper = models.metrics, order;
  std::sort(paper.begin(), paper.end());
  for (const size_t feature : order_by(grow_tree(features, labels, count), count))
    order.push_back(models.metrics[feature]);
  models.in_tree = order.size();
  for (const size_t metric : paper) {
    if (std::find(order.begin(), order.end(), metric) == order.end()) order.push_back(metric);
  }
  models.priority = order;
}

}  // namespace longhaul::detect
