#include "data/order/blend.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace longhaul::data {
namespace {

[[noreturn]] void refuse(std::string what, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kUsage,
               .what = std::move(what),
               .expected = std::move(expected),
               .found = std::move(found),
               .hint = "set data.weights"});
}

// n · share / 2^64, rounded: from n to n + 1 it grows by 0 or 1, because share is at most a half.
int64_t rounded_part(int64_t n, uint64_t share) {
  const auto product = static_cast<unsigned __int128>(static_cast<uint64_t>(n)) * share;
  return static_cast<int64_t>((product + (uint64_t{1} << 63)) >> 64);
}

}  // namespace

Blend::Blend(std::span<const double> weights) {
  double sum = 0;
  for (double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      refuse("bad weight of a dataset", "a number of at least 0", fmt::format("{}", weight));
    sum += weight;
  }
  if (!(sum > 0)) refuse("no dataset has a weight", "at least one weight above 0", "");
  if (!std::isfinite(sum))
    refuse("the weights of the datasets are too large", "numbers whose sum is one", fmt::format("{}", sum));

  struct Tree {
    double weight;
    int32_t first;  // first dataset in it: equal weights keep the order of the datasets
    int32_t node;
    auto operator<=>(const Tree&) const = default;
  };
  std::set<Tree> trees;
  for (size_t d = 0; d < weights.size(); ++d) {
    shares_.push_back(weights[d] / sum);
    if (weights[d] > 0) trees.insert({weights[d], static_cast<int32_t>(d), ~static_cast<int32_t>(d)});
  }
  while (trees.size() > 1) {
    const Tree lighter = trees.extract(trees.begin()).value(), rest = trees.extract(trees.begin()).value();
    const double both = lighter.weight + rest.weight;
    const auto share = static_cast<uint64_t>(std::ldexp(lighter.weight / both, 64));
    if (share == 0) {
      refuse("the weight of a dataset is too small to be sampled", "at least 2^-64 of the others'",
             fmt::format("{} of {}", lighter.weight, both));
    }
    trees.insert({both, std::min(lighter.first, rest.first), static_cast<int32_t>(nodes_.size())});
    nodes_.push_back({share, lighter.node, rest.node});
  }
  root_ = trees.begin()->node;
}

Blend::Place Blend::at(int64_t sample) const {
  LONGHAUL_ASSERT(sample >= 0, "sample {}", sample);
  int32_t at = root_;
  while (at >= 0) {
    const Node& node = nodes_[static_cast<size_t>(at)];
    const int64_t before = rounded_part(sample, node.share);
    const bool lighter = rounded_part(sample + 1, node.share) > before;
    at = lighter ? node.lighter : node.rest;
    sample = lighter ? before : sample - before;
  }
  return {~at, sample};
}

}  // namespace longhaul::data
