// Blend: from which dataset sample i of a run comes, and which of that dataset's samples it is. It needs no
// table and has no period: the datasets are the leaves of a binary tree (a Huffman tree by weight); at each
// node, of the first n samples that reach it, n · share, rounded, go to the lighter side. So for every n the
// count of each dataset in the first n samples differs from n · weight by less than 2, whatever the weights,
// and a sample is found in as many steps as its leaf is deep: one for two datasets, about log2(1 / weight).
// Shares are whole multiples of 2^-64. Immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::data {

class Blend {
 public:
  // Each weight ≥ 0, at least one > 0; they need not add up to 1. kUsage otherwise, and for a share below
  // 2^-64.
  explicit Blend(std::span<const double> weights);

  struct Place {
    int64_t dataset = 0;
    int64_t index = 0;  // number of the sample in that dataset, from 0
    bool operator==(const Place&) const = default;
  };
  Place at(int64_t sample) const;
  int64_t datasets() const { return static_cast<int64_t>(shares_.size()); }
  double weight(int64_t dataset) const { return shares_[static_cast<size_t>(dataset)]; }  // they add up to 1

 private:
  struct Node {
    uint64_t share = 0;             // of `lighter`, times 2^64; at most a half
    int32_t lighter = 0, rest = 0;  // a node, or ~dataset
  };
  std::vector<Node> nodes_;
  int32_t root_ = 0;
  std::vector<double> shares_;
};

}  // namespace longhaul::data
