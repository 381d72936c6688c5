// Shares that move: counts against sums of the shares themselves, in floating point, at every prefix; and
// what a run does with them.
#include "data/order/moving_blend.h"

#include <gtest/gtest.h>

#include <cmath>

#include "data/order/loader.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

using Points = std::vector<BlendPoint>;

// From its definition: each point's weights over their sum, and a straight line between.
double share_by_hand(const Points& points, size_t dataset, int64_t sample) {
  const auto of = [&](const BlendPoint& point) {
    double sum = 0;
    for (const double weight : point.weights) sum += weight;
    return point.weights[dataset] / sum;
  };
  size_t next = 0;
  while (next < points.size() && points[next].sample <= sample) ++next;
  if (next == 0) return of(points.front());
  if (next == points.size()) return of(points.back());
  const BlendPoint &from = points[next - 1], &to = points[next];
  const double way = static_cast<double>(sample - from.sample) / static_cast<double>(to.sample - from.sample);
  return of(from) + (of(to) - of(from)) * way;
}

const std::vector<Points> kMixes = {
    {{0, {1}}},
    {{0, {3, 1}}},
    {{0, {1, 0}}, {1000, {0, 1}}},
    {{10, {1, 1, 0}}, {400, {0, 1, 7}}, {400, {2, 1, 0}}, {1500, {0, 0, 1}}},
    {{0, {29.4, 68.6, 2}}, {48, {29.4, 68.6, 2}}, {60, {27, 63, 10}}},
    {{100, {5, 4, 3, 2, 1}}, {101, {1, 2, 3, 4, 5}}, {5000, {0, 0, 1, 0, 1e-7}}, {9000, {1, 1, 1, 1, 1}}},
};

TEST(MovingBlend, CountsFollowTheSharesAtEveryPrefix) {
  for (size_t m = 0; m < kMixes.size(); ++m) {
    const Points& points = kMixes[m];
    const MovingBlend blend(points);
    const size_t datasets = points[0].weights.size();
    const double most = 1 + std::ceil(std::log2(static_cast<double>(datasets)));
    std::vector<int64_t> given(datasets);
    std::vector<double> sums(datasets);
    for (int64_t n = 0; n < 12000; ++n) {
      const Blend::Place place = blend.at(n);
      ASSERT_EQ(place.index, given[static_cast<size_t>(place.dataset)]++)
          << "mix " << m << ", sample " << n << ": each of a dataset once, in order";
      for (size_t d = 0; d < datasets; ++d) {
        const double share = share_by_hand(points, d, n);
        ASSERT_NEAR(blend.share(static_cast<int64_t>(d), n), share, 1e-12) << "mix " << m << ", sample " << n;
        sums[d] += share;
        ASSERT_LE(std::abs(sums[d] - static_cast<double>(given[d])), most)
            << "mix " << m << ", sample " << n << ", dataset " << d;
      }
    }
  }
}

// By hand: of two sources, one fading over four samples: shares of the first 1, ¾, ½, ¼, 0 add up to 1, 1.75,
// 2.25, 2.5, 2.5, rounded.
TEST(MovingBlend, OfTwoByHand) {
  const MovingBlend blend(Points{{0, {1, 0}}, {4, {0, 1}}});
  std::vector<int64_t> datasets;
  for (int64_t n = 0; n < 6; ++n) datasets.push_back(blend.at(n).dataset);
  EXPECT_EQ(datasets, (std::vector<int64_t>{0, 0, 1, 0, 1, 1}));
}

// Trillions of tokens in a run: the arithmetic is as exact there.
TEST(MovingBlend, FarOut) {
  const int64_t end = int64_t{1} << 42;
  const MovingBlend blend(Points{{0, {1, 0, 0}}, {end, {0, 1, 1}}});
  for (const int64_t sample : {end / 4, end / 2, end - 1, end + 12345}) {
    const double way = static_cast<double>(std::min(sample, end)) / static_cast<double>(end),
                 all = static_cast<double>(sample);
    const double faded = static_cast<double>(std::min(sample, end)) * (1 - way / 2);
    for (int64_t near = sample; near < sample + 40; ++near) {
      const Blend::Place place = blend.at(near);
      const double wanted = place.dataset == 0 ? faded : (all - faded) / 2;
      EXPECT_NEAR(static_cast<double>(place.index), wanted, 50 + 1e-9 * all)
          << place.dataset << " at " << near;
    }
  }
}

TEST(MovingBlend, BadPointsAreRefused) {
  for (const Points& points : {Points{}, Points{{0, {0, 0}}}, Points{{0, {1, -1}}}, Points{{0, {1, NAN}}},
                               Points{{0, {1, 1}}, {5, {1}}}, Points{{5, {1, 1}}, {4, {1, 1}}},
                               Points{{-1, {1}}}, Points{{0, {1, 0}}, {9, {1, 0}}}}) {
    EXPECT_EQ(error_of([&] { MovingBlend blend(points); }).code(), ExitCode::kUsage);
  }
}

// What the loader gives is a function of the step: begun anywhere, in any number of ranks, the same batches,
// and the fading source fades.
TEST(MovingBlend, BatchesAreThoseOfARunFromTheBeginning) {
  TemporaryFolder folder;
  write_documents(folder / "a", 60, 400);
  write_documents(folder / "b", 25, 90);
  const PreparedSource a = prepare(corpus_of(folder / "a"), 0, byte_encoder(), folder / "cache");
  const PreparedSource b = prepare(corpus_of(folder / "b"), 0, byte_encoder(), folder / "cache");
  LoaderOptions options;
  options.sequence = 32;
  options.mix = {{12, {1, 0}}, {48, {0, 1}}};
  options = with_batch(options, 6);
  Loader whole({&a.train, &b.train}, options);
  std::vector<int64_t> of_b;
  for (int64_t step = 0; step < 10; ++step) {
    const Batch batch = whole.take(step);
    Loader later({&a.train, &b.train}, options);
    std::vector<int64_t> inputs;
    for (int64_t rank = 0; rank < 4; ++rank) {
      const Batch part = later.batch_at(step, rank, 4);
      inputs.insert(inputs.end(), part.inputs.begin(), part.inputs.end());
    }
    EXPECT_EQ(inputs, batch.inputs) << step;
    int64_t count = 0;
    for (int64_t sample = step * 6; sample < step * 6 + 6; ++sample) count += whole.origin_of(sample).dataset;
    of_b.push_back(count);
  }
  EXPECT_EQ(of_b, (std::vector<int64_t>{0, 0, 0, 2, 2, 4, 4, 5, 6, 6}));
  LoaderOptions three = options;
  three.mix = {{0, {1, 1, 1}}};
  EXPECT_EQ(error_of([&] { Loader loader({&a.train, &b.train}, three); }).code(), ExitCode::kUsage);
}

}  // namespace
}  // namespace longhaul::data
