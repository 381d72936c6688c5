// MovingBlend: a blend (blend.h) whose shares move over the run: between stated points each share goes in a straight line, before the first and behind
// the last point it stays. Which dataset sample i comes from, and which of that dataset's samples it is, are functions of i alone: no table, no
// memory of the samples before, nothing of ranks or steps.
//
// The datasets are the leaves of a balanced binary tree. A sample is one unit of mass that the shares of its moment divide; at each node, of the
// first n samples that reach it, as many go left as the mass of the left side was, rounded, when the node's own mass was n. So the count of every
// dataset over the first n samples, for every n, differs from the sum of its shares by at most one for each level of the tree. All in whole numbers:
// shares are multiples of 2^-62, and so are their steps from sample to sample, which is why a share may miss its point by 2^-62 for each sample on
// the way there. Immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order/blend.h"

namespace longhaul::data {

struct BlendPoint {
  int64_t sample = 0;           // from which on, of the run's order
  std::vector<double> weights;  // each ≥ 0, at least one > 0; need not add up to 1
  bool operator==(const BlendPoint&) const = default;
};

class MovingBlend {
 public:
  // At least one point, in order; two at one sample are a jump. The same number of weights at each, every dataset above 0 at one of them. kUsage
  // otherwise.
  explicit MovingBlend(std::span<const BlendPoint> points);

  Blend::Place at(int64_t sample) const;
  double share(int64_t dataset, int64_t sample) const;  // of that moment

 private:
  using Mass = __int128;
  struct Line {         // a node's share in a stretch
    int64_t share = 0;  // of its first sample, times 2^62
    int64_t slope = 0;  // from sample to sample
    Mass before = 0;    // mass of the stretches before
    int64_t at(int64_t sample) const { return share + slope * sample; }
    Mass mass(int64_t samples) const { return before + Mass{share} * samples + Mass{slope} * (Mass{samples} * (samples - 1) / 2); }
  };
  struct Stretch {
    int64_t begin = 0;
    std::vector<Line> lines;  // by node; leaves first, in the order of the datasets
  };
  struct Node {
    size_t left = 0, right = 0;  // nodes
  };
  size_t build(size_t first, size_t count);
  const Stretch& stretch_of(int64_t sample) const;
  Mass mass(size_t node, int64_t samples) const;
  int64_t left_of_first(size_t node, int64_t samples) const;

  size_t datasets_;
  std::vector<Node> nodes_;  // inner ones: number datasets_ and up
  size_t root_ = 0;
  std::vector<Stretch> stretches_;
};

}  // namespace longhaul::data
