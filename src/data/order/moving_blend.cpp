#include "data/order/moving_blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace longhaul::data {
namespace {

constexpr int kShareBits = 62;
constexpr int64_t kWhole = int64_t{1} << kShareBits;
constexpr int64_t kLongest = int64_t{1} << 60;  // samples; mass of so many fits

[[noreturn]] void refuse_points(std::string what, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kUsage,
               .what = std::move(what),
               .expected = std::move(expected),
               .found = std::move(found),
               .hint = "set data.mix"});
}

void check_points(std::span<const BlendPoint> points) {
  if (points.empty()) refuse_points("a mix has no points", "at least one", "none");
  std::vector<double> most(points[0].weights.size());
  for (size_t p = 0; p < points.size(); ++p) {
    const BlendPoint& point = points[p];
    if (point.weights.size() != most.size()) {
      refuse_points("the points of a mix have different numbers of weights", fmt::format("{}", most.size()),
                    fmt::format("{}", point.weights.size()));
    }
    if (point.sample < (p == 0 ? 0 : points[p - 1].sample) || point.sample > kLongest)
      refuse_points("the points of a mix are not in order", "each behind the one before",
                    fmt::format("sample {}", point.sample));
    double sum = 0;
    for (size_t d = 0; d < most.size(); ++d) {
      const double weight = point.weights[d];
      if (!(weight >= 0) || !std::isfinite(weight))
        refuse_points("bad weight in a mix", "a number of at least 0", fmt::format("{}", weight));
      most[d] = std::max(most[d], weight);
      sum += weight;
    }
    if (!(sum > 0) || !std::isfinite(sum))
      refuse_points("a point of a mix has no weight", "at least one above 0", fmt::format("{}", sum));
  }
  for (size_t d = 0; d < most.size(); ++d) {
    if (!(most[d] > 0))
      refuse_points("a dataset is in no point of a mix", "a weight above 0 somewhere",
                    fmt::format("dataset {}", d));
  }
}

// Whole multiples of 2^-62 that add up to 1; the rounding remainder goes to the largest share.
std::vector<int64_t> shares_of(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares;
  int64_t left = kWhole;
  for (const double weight : weights) {
    shares.push_back(std::min(left, static_cast<int64_t>(std::ldexp(weight / sum, kShareBits))));
    left -= shares.back();
  }
  shares[static_cast<size_t>(std::ranges::max_element(weights) - weights.begin())] += left;
  return shares;
}

// Changes from sample to sample, such that no share leaves the interval between both ends and all changes add
// up to 0.
std::vector<int64_t> slopes_of(const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                               int64_t samples) {
  std::vector<int64_t> slopes;
  for (size_t d = 0; d < from.size(); ++d) slopes.push_back((to[d] - from[d]) / samples);  // towards 0
  int64_t over = std::accumulate(slopes.begin(), slopes.end(), int64_t{0});
  while (over != 0) {  // fewer than datasets
    for (int64_t& slope : slopes) {
      const int64_t step = over > 0 && slope > 0 ? 1 : over < 0 && slope < 0 ? -1 : 0;
      slope -= step;
      over -= step;
    }
  }
  return slopes;
}

}  // namespace

size_t MovingBlend::build(size_t first, size_t count) {
  if (count == 1) return first;
  const size_t left = build(first, count / 2), right = build(first + count / 2, count - count / 2);
  nodes_.push_back({left, right});
  return datasets_ + nodes_.size() - 1;
}

MovingBlend::MovingBlend(std::span<const BlendPoint> points)
    : datasets_(points.empty() ? 0 : points[0].weights.size()) {
  check_points(points);
  root_ = build(0, datasets_);
  const auto add = [&](int64_t begin, const std::vector<int64_t>& shares,
                       const std::vector<int64_t>& slopes) {
    Stretch next{.begin = begin, .lines = std::vector<Line>(datasets_ + nodes_.size())};
    for (size_t d = 0; d < datasets_; ++d) next.lines[d] = {.share = shares[d], .slope = slopes[d]};
    for (size_t i = 0; i < nodes_.size(); ++i) {  // children come first
      const Line &left = next.lines[nodes_[i].left], &right = next.lines[nodes_[i].right];
      next.lines[datasets_ + i] = {.share = left.share + right.share, .slope = left.slope + right.slope};
    }
    for (size_t node = 0; node < next.lines.size() && !stretches_.empty(); ++node)
      next.lines[node].before = stretches_.back().lines[node].mass(begin - stretches_.back().begin);
    stretches_.push_back(std::move(next));
  };
  const std::vector<int64_t> still(datasets_);
  for (size_t p = 0; p < points.size(); ++p) {
    const std::vector<int64_t> shares = shares_of(points[p].weights);
    if (p == 0 && points[p].sample > 0) add(0, shares, still);
    const bool last = p + 1 == points.size();
    if (!last && points[p + 1].sample == points[p].sample) continue;
    add(points[p].sample, shares,
        last ? still
             : slopes_of(shares, shares_of(points[p + 1].weights), points[p + 1].sample - points[p].sample));
  }
}

const MovingBlend::Stretch& MovingBlend::stretch_of(int64_t sample) const {
  return *std::prev(std::ranges::upper_bound(stretches_, sample, {}, &Stretch::begin));
}

double MovingBlend::share(int64_t dataset, int64_t sample) const {
  const Stretch& stretch = stretch_of(sample);
  return std::ldexp(
      static_cast<double>(stretch.lines[static_cast<size_t>(dataset)].at(sample - stretch.begin)),
      -kShareBits);
}

// Among the first samples of the run.
MovingBlend::Mass MovingBlend::mass(size_t node, int64_t samples) const {
  const Stretch& stretch = stretch_of(samples);
  return stretch.lines[node].mass(samples - stretch.begin);
}

// How many of the first samples that reach a node go left: the left side's mass, rounded, at the moment when
// the node's own mass is that number. It grows by 0 or 1 from one number of samples to the next, because the
// left side's share is a part of the node's.
int64_t MovingBlend::left_of_first(size_t node, int64_t samples) const {
  const Mass target = Mass{samples} << kShareBits;
  int64_t whole = 0, beyond = kLongest;  // mass(whole) ≤ target < mass(beyond), where that is reached at all
  while (beyond - whole > 1) {
    const int64_t middle = whole + (beyond - whole) / 2;
    (mass(node, middle) <= target ? whole : beyond) = middle;
  }
  const size_t left = nodes_[node - datasets_].left;
  const Stretch& stretch = stretch_of(whole);
  const int64_t moment = whole - stretch.begin, own = stretch.lines[node].at(moment);
  const Mass rest = target - mass(node, whole);
  Mass reached = mass(left, whole);
  // Within one sample shares are constant.
  if (own > rest) reached += rest * stretch.lines[left].at(moment) / own;
  return static_cast<int64_t>((reached + kWhole / 2) >> kShareBits);
}

Blend::Place MovingBlend::at(int64_t sample) const {
  LONGHAUL_ASSERT(sample >= 0 && sample < kLongest, "sample {}", sample);
  size_t node = root_;
  while (node >= datasets_) {
    const int64_t before = left_of_first(node, sample);
    const bool left = left_of_first(node, sample + 1) > before;
    node = left ? nodes_[node - datasets_].left : nodes_[node - datasets_].right;
    sample = left ? before : sample - before;
  }
  return {static_cast<int64_t>(node), sample};
}

}  // namespace longhaul::data
