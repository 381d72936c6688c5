// MovingBlend: a blend (blend.h) whose shares change over the run: between given points each share changes
// linearly; before the first and after the last point it is constant. The dataset of sample i, and the number
// of the sample in it, are functions of i only: they need no table, no memory of earlier samples, and nothing
// about ranks or steps.
//
// The datasets are the leaves of a balanced binary tree. A sample is one unit of mass, which the current
// shares divide. At each node, of the first n samples that reach it, as many go left as the left side's mass
// was, rounded, when the node's own mass was n. So for every n the count of each dataset in the first n
// samples differs from the sum of its shares by at most one per level of the tree. All numbers are whole:
// shares are multiples of 2^-62, and so are their changes from sample to sample, which is why a share may
// miss its point by 2^-62 per sample before it. Immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/order/blend.h"

namespace longhaul::data {

struct BlendPoint {
  int64_t sample = 0;           // number in the run's order from which on it applies
  std::vector<double> weights;  // each ≥ 0, at least one > 0; they need not add up to 1
  bool operator==(const BlendPoint&) const = default;
};

class MovingBlend {
 public:
  // Needs at least one point, in order; two at one sample are a jump. Each has the same number of weights,
  // and every dataset must be above 0 at one of them. kUsage otherwise.
  explicit MovingBlend(std::span<const BlendPoint> points);

  Blend::Place at(int64_t sample) const;
  double share(int64_t dataset, int64_t sample) const;  // at that sample

 private:
  using Mass = __int128;
  struct Line {         // a node's share in a stretch
    int64_t share = 0;  // of the stretch's first sample, times 2^62
    int64_t slope = 0;  // change per sample
    Mass before = 0;    // mass of earlier stretches
    int64_t at(int64_t sample) const { return share + slope * sample; }
    Mass mass(int64_t samples) const {
      return before + Mass{share} * samples + Mass{slope} * (Mass{samples} * (samples - 1) / 2);
    }
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
  std::vector<Node> nodes_;  // inner nodes have numbers from datasets_ on
  size_t root_ = 0;
  std::vector<Stretch> stretches_;
};

}  // namespace longhaul::data
