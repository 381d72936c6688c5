// Distances, scores and continuity against plain loops, and the invariants of peer comparison.
#include "detect/minder/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "detect/samples/continuity.h"

namespace longhaul::detect {
namespace {

double plain_distance(Distance kind, const std::vector<float>& x, int64_t dims, int64_t stride, int64_t i,
                      int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < dims; ++k) {
    const double d = std::abs(static_cast<double>(x[static_cast<size_t>(k * stride + i)]) -
                              static_cast<double>(x[static_cast<size_t>(k * stride + j)]));
    if (kind == Distance::kEuclidean) sum += d * d;
    if (kind == Distance::kManhattan) sum += d;
    if (kind == Distance::kChebyshev) sum = std::max(sum, d);
  }
  return kind == Distance::kEuclidean ? std::sqrt(sum) : sum;
}

TEST(DistanceSums, AreThoseOfPlainLoops) {
  for (const Distance kind : {Distance::kEuclidean, Distance::kManhattan, Distance::kChebyshev}) {
    for (const int64_t count : {1, 2, 4, 5, 7, 15, 16, 17, 31, 33, 64, 70, 129}) {
      for (const int64_t dims : {8, 3, 56}) {
        const int64_t stride = padded(count);
        const RandomStream stream(static_cast<uint64_t>(count), "x");
        std::vector<float> x(static_cast<size_t>(dims * stride)),
            sums(static_cast<size_t>(stride), std::numeric_limits<float>::quiet_NaN());
        for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(stream.uniform(i));
        distance_sums(kind, x.data(), dims, stride, count, sums.data());
        for (int64_t i = 0; i < count; ++i) {
          double expected = 0;
          for (int64_t j = 0; j < count; ++j) expected += plain_distance(kind, x, dims, stride, i, j);
          ASSERT_NEAR(static_cast<double>(sums[static_cast<size_t>(i)]), expected,
                      2e-6 * static_cast<double>(count) * (1 + expected))
              << name_of(kind) << " machine " << i << " of " << count << ", " << dims << " dims";
        }
      }
    }
  }
}

Channel raw_channel(int64_t window = 8) {
  return {"cpu_usage", {1}, std::make_shared<RawEmbedding>(window, 1)};
}

Pull constant_pull(int64_t machines, int64_t seconds, float value = 0.4f) {
  Pull pull{.metrics = {1},
            .class_of = std::vector<int32_t>(static_cast<size_t>(machines), 0),
            .classes = {"all"},
            .seconds = seconds};
  for (int64_t i = 0; i < machines; ++i) pull.machines.push_back("m" + std::to_string(100 + i));
  pull.values.assign(static_cast<size_t>(machines * seconds), value);
  return pull;
}

Candidate first_candidate(const Pull& pull, int top = 1) {
  return *trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, top).at(0);
}

TEST(Trace, OneConstantOutlierHasTheLargestScore) {
  for (const int64_t n : {4, 8, 64, 257}) {
    Pull pull = constant_pull(n, 20);
    for (int64_t s = 0; s < 20; ++s) pull.row(0, s)[2] += 0.25f;
    const Candidate found = first_candidate(pull);
    EXPECT_EQ(found.machine, 2) << n;
    EXPECT_NEAR(static_cast<double>(found.share), 1, 1e-4) << n;  // z = √(n − 1)
    EXPECT_NEAR(static_cast<double>(found.distance), 0.25 * std::sqrt(8.0), 1e-6);
  }
}

TEST(Trace, IdenticalMachinesHaveNoCandidate) {
  EXPECT_EQ(first_candidate(constant_pull(16, 20)).machine, -1);
}

TEST(Trace, ThreeMachinesAreNotCompared) {
  Pull pull = constant_pull(3, 20);
  for (int64_t s = 0; s < 20; ++s) pull.row(0, s)[0] = 1;
  const Trace trace = trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, 1);
  EXPECT_EQ(trace.too_few, trace.windows);
  EXPECT_EQ(trace.at(0)->machine, -1);
}

Pull random_pull(int64_t machines, int64_t seconds, double noise) {
  Pull pull = constant_pull(machines, seconds);
  const RandomStream stream(9, "pull");
  for (size_t i = 0; i < pull.values.size(); ++i)
    pull.values[i] += static_cast<float>(noise * stream.normal(i));
  return pull;
}

TEST(Trace, PermutedMachinesPermuteTheAnswer) {
  const int64_t n = 21;
  const Pull pull = random_pull(n, 30, 0.02);
  Pull turned = pull;
  const auto moved = [&](int64_t i) { return (5 * i + 3) % n; };
  for (int64_t s = 0; s < 30; ++s) {
    for (int64_t i = 0; i < n; ++i) turned.row(0, s)[moved(i)] = pull.row(0, s)[i];
  }
  const Trace a = trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, 1),
              b = trace_of(turned, raw_channel(), 0, 0, Distance::kEuclidean, 1);
  int64_t seen = 0;
  for (int64_t w = 0; w < a.windows; ++w) {
    if (a.at(w)->machine >= 0) ++seen;
    EXPECT_EQ(b.at(w)->machine, a.at(w)->machine < 0 ? -1 : moved(a.at(w)->machine));
    EXPECT_NEAR(static_cast<double>(a.at(w)->share), static_cast<double>(b.at(w)->share), 1e-4);
  }
  EXPECT_GT(seen, 5);
}

TEST(Trace, AConstantAddedToAllChangesNothing) {
  const Pull pull = random_pull(12, 30, 0.02);
  Pull shifted = pull;
  for (float& value : shifted.values) value += 0.25f;
  const Trace a = trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, 1),
              b = trace_of(shifted, raw_channel(), 0, 0, Distance::kEuclidean, 1);
  for (int64_t w = 0; w < a.windows; ++w) {
    EXPECT_EQ(a.at(w)->machine, b.at(w)->machine);
    EXPECT_NEAR(static_cast<double>(a.at(w)->share), static_cast<double>(b.at(w)->share), 1e-4);
  }
}

TEST(Trace, MachinesWithoutDataAreLeftOutAndNeverZero) {
  Pull pull = constant_pull(9, 20, 0.9f);
  for (int64_t s = 0; s < 20; ++s) pull.row(0, s)[4] = std::numeric_limits<float>::quiet_NaN();
  const Trace trace = trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, 1);
  // as zero it would be far from 0.9
  for (int64_t w = 0; w < trace.windows; ++w) EXPECT_EQ(trace.at(w)->machine, -1);
  EXPECT_EQ(trace.too_few, 0);
}

TEST(Trace, PeersAreComparedWithinTheirClass) {
  Pull pull = constant_pull(12, 20);
  pull.classes = {"first", "rest"};
  for (int64_t i = 0; i < 12; ++i) pull.class_of[static_cast<size_t>(i)] = i < 4 ? 0 : 1;
  for (int64_t s = 0; s < 20; ++s) {
    for (int64_t i = 0; i < 4; ++i) pull.row(0, s)[i] = 0.8f;  // another level, as their class has
    pull.row(0, s)[7] = 0.7f;
  }
  EXPECT_EQ(trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, 1).at(0)->machine, -1);
  EXPECT_EQ(trace_of(pull, raw_channel(), 0, 1, Distance::kEuclidean, 1).at(0)->machine, 7);
}

TEST(Trace, SeveralFaultyMachinesAreFoundTogether) {
  Pull pull = random_pull(24, 20, 0.003);
  for (int64_t s = 0; s < 20; ++s) {
    for (const int64_t i : {3, 11, 20}) pull.row(0, s)[i] += 0.3f;
  }
  const Threshold threshold{.share = 0.7, .distance = 0.1};
  const Trace one = trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, 1);
  EXPECT_FALSE(passes(*one.at(0), threshold)) << "none is alone";
  const Trace trace = trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, 4);
  std::vector<int32_t> found;
  for (int f = 0; f < 4; ++f) {
    if (passes(trace.at(0)[f], threshold)) found.push_back(trace.at(0)[f].machine);
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<int32_t>{3, 11, 20}));
}

// Machine 7 differs a little for long. Of 128 others one after the other differs more for a few seconds, so
// it is never the furthest of all.
TEST(Trace, WhoStandsFurtherForSecondsDoesNotHideWhoStandsFarForLong) {
  constexpr int64_t kSeconds = 400;
  Pull pull = random_pull(129, kSeconds, 0.003);
  for (int64_t s = 60; s < kSeconds; ++s) {
    pull.row(0, s)[7] += 0.1f;
    pull.row(0, s)[8 + s / 5 % 120] += 0.4f;
  }
  const Rule rule{.threshold = {.share = 0.7, .distance = 0.1}};
  const auto alarms_with = [&](int followed) {
    return alarms_of(trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, followed), rule, pull.count());
  };
  EXPECT_TRUE(alarms_with(1).empty());
  ASSERT_EQ(alarms_with(8).size(), 1u);
  EXPECT_EQ(alarms_with(8)[0].machine, 7);
  EXPECT_NEAR(static_cast<double>(alarms_with(8)[0].first), 56, 4) << "windows of eight seconds";
}

std::vector<Alarm> alarms(const std::string& pattern, Rule rule) {
  Trace trace{.window = 8, .windows = static_cast<int64_t>(pattern.size())};
  for (const char c : pattern) trace.best.push_back(c == '.' ? Candidate{} : Candidate{c - 'a', 0.9f, 1.0f});
  return alarms_of(trace, rule, 26);
}

TEST(ContinuityRule, AsksForAWholeRun) {
  const Rule rule{.windows = 5, .gap = 1};
  EXPECT_TRUE(alarms("aaaa", rule).empty());
  ASSERT_EQ(alarms("..aaaaaaaa", rule).size(), 1u);  // once
  EXPECT_EQ(alarms("..aaaaaaaa", rule)[0].first, 2);
  EXPECT_EQ(alarms("..aaaaaaaa", rule)[0].last, 6);
  EXPECT_EQ(alarms("aa.aa", rule).size(), 1u);
  EXPECT_TRUE(alarms("aa..aaa", rule).empty());
  EXPECT_TRUE(alarms("aa.aa", {.windows = 5, .gap = 0}).empty());
  EXPECT_EQ(alarms("abaaa", rule).front().machine, 0);
  EXPECT_EQ(alarms("aaaaa......aaaaa", rule).size(), 2u);
}

TEST(ContinuityRule, NeedsBothThresholds) {
  EXPECT_TRUE(alarms("aaaaaa", {.threshold = {.share = 0.95}, .windows = 3}).empty());
  EXPECT_TRUE(alarms("aaaaaa", {.threshold = {.distance = 1.5}, .windows = 3}).empty());
  EXPECT_EQ(alarms("aaaaaa", {.windows = 3}).size(), 1u);
}

TEST(ContinuityRule, WithoutContinuityHalfAMinuteIsEnough) {
  const Rule rule{.continuous = false};
  EXPECT_TRUE(alarms(std::string(29, 'a') + std::string(31, '.'), rule).empty());
  EXPECT_EQ(alarms(std::string(10, 'a') + std::string(20, '.') + std::string(20, 'a'), rule).size(), 1u);
  EXPECT_TRUE(alarms(std::string(40, '.') + std::string(40, 'a'), rule).empty());  // two blocks, 20 in each
}

TEST(ShareAmongReference, IsTheShareOfSixteenAndKeepsOne) {
  for (const double share : {0.3, 0.5, 0.9}) EXPECT_NEAR(share_among_reference(share, 16), share, 1e-12);
  for (const int64_t n : {4, 64, 1500}) EXPECT_NEAR(share_among_reference(1, n), 1, 1e-12);
  EXPECT_EQ(share_among_reference(0, 64), 0);
  EXPECT_EQ(share_among_reference(-0.2, 64), 0);
  // z² = 1 / (1/(n − 1) + σ²/D²): D/σ = 6 among 64 has a share of √(1 / (1 + 63/36)); among 16, with noise of
  // √(ln 64 / ln 16) as much, less than 6.
  EXPECT_NEAR(share_among_reference(std::sqrt(1 / (1 + 63.0 / 36)), 64), std::sqrt(1 / (1 + 15.0 / 36 * 1.5)),
              1e-12);
}

// One machine at a given distance, in deviations of the others' noise: its score hardly depends on how many
// others there are. z / √(n − 1) falls to a seventh from 16 to 1,024.
TEST(Trace, AScoreDoesNotFallWithTheNumberOfMachines) {
  const auto score = [](int64_t n) {
    Pull pull = constant_pull(n, 8);
    const RandomStream stream(4, "levels");
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t s = 0; s < 8; ++s)
        pull.row(0, s)[i] =
            0.4f + static_cast<float>(i == 2 ? 0.08 : 0.01 * std::abs(stream.normal(static_cast<size_t>(i))));
    }
    return static_cast<double>(first_candidate(pull).share);
  };
  for (const int64_t n : {64, 256, 1024}) EXPECT_NEAR(score(n), score(16), 0.12) << n;
}

// By hand: means .4 ×7 spread by ±.01 and one at .7. Median .4, absolute deviations 0, .01, …: their median
// .01.
TEST(Trace, RobustZIsTheDeviationFromTheMedianInUnitsOfMad) {
  Pull pull = constant_pull(9, 8);
  const float means[] = {.39f, .39f, .4f, .4f, .4f, .41f, .41f, .41f, .7f};
  for (int64_t s = 0; s < 8; ++s) {
    for (int64_t i = 0; i < 9; ++i)
      // the mean of eight samples has no noise left
      pull.row(0, s)[i] = means[i] + (s % 2 == 0 ? .1f : -.1f);
  }
  const Channel channel{"cpu_usage", {1}, std::make_shared<MeanEmbedding>(8), Apart::kRobustZ};
  const Candidate best = *trace_of(pull, channel, 0, 0, Distance::kEuclidean, 1).at(0);
  EXPECT_EQ(best.machine, 8);
  EXPECT_NEAR(static_cast<double>(best.distance), .3 - .0, 1e-5);  // from the median, .4
  const double z = .3 / (1.4826 * .01 + 1e-6), largest = std::log(9.0) / std::log(16.0);
  EXPECT_NEAR(static_cast<double>(best.share), 1 / std::sqrt(1 + 15 / (z * z) * largest), 1e-4);
  // Whoever has nothing of its own is no candidate.
  EXPECT_EQ(trace_of(constant_pull(9, 8), channel, 0, 0, Distance::kEuclidean, 1).at(0)->machine, -1);
}

TEST(Trace, IsolationOfTheMeanComparesOneNumberAMachine) {
  Pull pull = constant_pull(6, 8);
  for (int64_t s = 0; s < 8; ++s) pull.row(0, s)[2] += s < 4 ? .2f : -.2f;  // another form, the same mean
  const Channel channel{"cpu_usage", {1}, std::make_shared<MeanEmbedding>(8)};
  EXPECT_EQ(trace_of(pull, channel, 0, 0, Distance::kEuclidean, 1).at(0)->machine, -1);
  for (int64_t s = 0; s < 8; ++s) pull.row(0, s)[4] += .1f;
  const Candidate best = *trace_of(pull, channel, 0, 0, Distance::kEuclidean, 1).at(0);
  EXPECT_EQ(best.machine, 4);
  EXPECT_NEAR(static_cast<double>(best.distance), .1, 1e-6);
  EXPECT_NEAR(static_cast<double>(best.share), 1, 1e-3);
}

// Alarms of the windows that were scored are those of all, for runs anywhere, with gaps, of several machines;
// and few are scored where nobody stands apart.
TEST(SparseTrace, HasTheAlarmsOfTheWholeTrace) {
  const RandomStream stream(31, "runs");
  int64_t told = 0, spared = 0;
  for (size_t number = 0; number < 60; ++number) {
    const int64_t n = 6 + static_cast<int64_t>(number % 5),
                  seconds = 300 + static_cast<int64_t>(200 * stream.uniform(1000 * number));
    Pull pull = random_pull(n, seconds, 0.004);
    for (size_t run = 0; run < number % 4; ++run) {
      const double at = stream.uniform(1000 * number + 10 * run + 1),
                   length = stream.uniform(1000 * number + 10 * run + 2);
      const auto begin = static_cast<int64_t>(at * static_cast<double>(seconds)),
                 machine = static_cast<int64_t>(run + number) % n;
      for (int64_t s = begin; s < std::min(seconds, begin + 40 + static_cast<int64_t>(200 * length)); ++s) {
        if (stream.uniform(1000 * number + 100 + static_cast<size_t>(s)) < 0.9)
          pull.row(0, s)[machine] += 0.3f;
      }
    }
    for (const int top : {1, 3}) {
      for (const auto& [windows, gap] :
           {std::pair<int64_t, int64_t>{60, 8}, {60, 0}, {100, 20}, {12, 8}, {240, 8}}) {
        const Rule rule{.threshold = {.share = 0.7, .distance = 0.1}, .windows = windows, .gap = gap};
        const Trace whole = trace_of(pull, raw_channel(), 0, 0, Distance::kEuclidean, top),
                    sparse = trace_for(pull, raw_channel(), 0, 0, Distance::kEuclidean, top, rule);
        const auto expected = alarms_of(whole, rule, n), found = alarms_of(sparse, rule, n);
        ASSERT_EQ(found.size(), expected.size())
            << number << " windows " << windows << " gap " << gap << " top " << top;
        for (size_t i = 0; i < found.size(); ++i) {
          EXPECT_EQ(found[i].machine, expected[i].machine);
          EXPECT_EQ(found[i].first, expected[i].first);
          EXPECT_EQ(found[i].last, expected[i].last);
          EXPECT_EQ(found[i].score, expected[i].score);
        }
        told += static_cast<int64_t>(found.size());
        EXPECT_LE(sparse.scored, whole.scored);
        if (number % 4 == 0 && windows == 240) {
          EXPECT_LT(sparse.scored, whole.scored / 8);
          ++spared;
        }
      }
    }
  }
  EXPECT_GT(told, 30);
  EXPECT_GT(spared, 10);
}

}  // namespace
}  // namespace longhaul::detect
