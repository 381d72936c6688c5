// A source that grows, second by second or in pieces: the alarms are those of a stream over the whole; and
// clocks that are apart.
#include "detect/minder/follow.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/machine/machine.h"
#include "base/memory/peak_memory.h"
#include "detect/samples/clocks.h"
#include "detect/trials/trial.h"

namespace longhaul::detect {
namespace {

using ::testing::HasSubstr;

Models raw_models() {
  std::vector<Pull> pulls = {labelled({.machines = 8, .seed = 1, .fault = "any", .seconds = 200}).pull};
  return train_models(pulls, {.steps = 10, .batch = 16});
}

// With its holes, as a source has it.
Pull with_holes_and_a_fault(int64_t machines, int64_t seconds) {
  Pull pull = simulate({.machines = machines, .seed = 58, .fault = "none", .seconds = seconds}).pull;
  const size_t cpu = metric_named("cpu_usage", "");
  for (int64_t s = 300; s < seconds; ++s) pull.row(cpu, s)[3] *= 0.4f;
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    for (int64_t s = 200; s < 290; ++s) pull.row(m, s)[5] = std::nanf("");  // silent for a while
  }
  return pull;
}

std::string text_of(const std::vector<Alert>& alerts) {
  std::string text;
  for (const Alert& each : alerts)
    text += each.machine + " " + each.metric +
            fmt::format(" {} {} {:.6f}; ", each.first_s, each.raised_s, each.score);
  return text;
}

TEST(Follower, HasTheAlarmsOfTheWholeAndAsksForNewSecondsOnly) {
  constexpr int64_t kSeconds = 700;
  const Models models = raw_models();
  const DetectOptions options{.variant = Variant::kRaw};
  const Pull source = with_holes_and_a_fault(8, kSeconds);
  Pull whole = source;
  fill_gaps(whole);
  std::vector<Alert> expected;
  Stream stream(models, options, whole.machines, whole.metrics);
  std::vector<float> row(whole.metrics.size() * 8);
  for (int64_t s = 0; s < kSeconds - kHeldBack; ++s) {
    for (size_t m = 0; m < whole.metrics.size(); ++m)
      std::copy(whole.row(m, s), whole.row(m, s) + 8, row.begin() + static_cast<std::ptrdiff_t>(8 * m));
    for (const Alert& alert : stream.next(static_cast<double>(s), row)) expected.push_back(alert);
  }
  ASSERT_GE(expected.size(), 2u) << "the fault and the silence";
  int64_t now = 40, most_asked = 0;
  Follower follower(models, options, [&](std::optional<double> from_s) {
    const int64_t from = from_s ? static_cast<int64_t>(*from_s) : 0;
    if (from_s) most_asked = std::max(most_asked, now - from);
    Pull part = source.part(from, now - from);
    fill_gaps(part);
    return RunSamples{.pull = std::move(part)};
  });
  std::vector<Alert> seen;
  int64_t fed = 0;
  for (int64_t round = 0; now <= kSeconds; ++round) {
    const Follower::News news = follower.more();
    seen.insert(seen.end(), news.alerts.begin(), news.alerts.end()), fed += news.seconds;
    now = now == kSeconds ? kSeconds + 1 : std::min<int64_t>(kSeconds, now + 1 + round % 13);
  }
  EXPECT_EQ(text_of(seen), text_of(expected));
  EXPECT_EQ(fed, kSeconds - kHeldBack) << "each second once";
  EXPECT_LE(most_asked, 13 + 2 * kHeldBack);
}

TEST(Follower, BeginsAnewWhereMachinesChange) {
  const Models models = raw_models();
  const Pull eight = labelled({.machines = 8, .seed = 2, .fault = "none", .seconds = 60}).pull,
             nine = labelled({.machines = 9, .seed = 2, .fault = "none", .seconds = 90}).pull;
  int64_t asked = 0, whole = 0;
  Follower follower(models, {.variant = Variant::kRaw}, [&](std::optional<double> from_s) {
    ++asked, whole += !from_s;
    return RunSamples{.pull = asked == 1 ? eight : nine};
  });
  EXPECT_EQ(follower.more().machines, 8);
  const Follower::News news = follower.more();
  EXPECT_EQ(news.machines, 9);
  EXPECT_EQ(news.seconds, 90 - kHeldBack);
  EXPECT_EQ(whole, 2) << "at the beginning, and for the machines that are new";
  EXPECT_THAT(::testing::PrintToString(news.remarks), HasSubstr("have changed"));
}

// Machine 5 of sixteen is told `shift` seconds later (its clock is ahead) or earlier than the others.
Pull with_shifted_clock(uint64_t seed, int64_t shift) {
  Pull pull = labelled({.machines = 16, .seed = seed, .fault = "none", .seconds = 900}).pull;
  const Pull before = pull;
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    for (int64_t s = 0; s < pull.seconds; ++s)
      pull.row(m, s)[5] = before.row(m, std::clamp<int64_t>(s - shift, 0, pull.seconds - 1))[5];
  }
  return pull;
}

TEST(Clocks, AShiftedMachineIsFoundMovedBackAndSaid) {
  for (const uint64_t seed : {58, 59, 60, 61}) {
    EXPECT_TRUE(clock_lags(with_shifted_clock(seed, 0)).empty()) << seed;
  }
  for (const int64_t shift : {3, -2, 4}) {
    const Pull right = with_shifted_clock(58, 0);
    Pull pull = with_shifted_clock(58, shift);
    const std::vector<ClockLag> lags = clock_lags(pull);
    ASSERT_EQ(lags.size(), 1u) << shift;
    EXPECT_EQ(lags[0].machine, 5);
    EXPECT_EQ(lags[0].seconds, shift);
    const std::vector<std::string> said = move_clocks(pull, lags);
    EXPECT_THAT(said.front(), HasSubstr(shift > 0 ? "machine-0005 is" : "behind")) << shift;
    for (size_t m = 0; m < pull.metrics.size(); ++m) {
      for (int64_t s = 20; s < 880; ++s) ASSERT_EQ(pull.row(m, s)[5], right.row(m, s)[5]);
      EXPECT_TRUE(std::isnan(pull.row(m, shift > 0 ? 899 : 0)[5])) << "what lies beyond the ends is no data";
    }
  }
}

// A swing of two minutes fits almost as well three seconds earlier: that tells nothing of a clock. One of
// twenty seconds does.
TEST(Clocks, ALagThatFitsBetterByAHairIsNone) {
  constexpr double kTurn = 6.283185307179586;
  for (const double period_s : {120.0, 20.0}) {
    Series series{.metric = metric_named("cpu_usage", ""), .where = "test", .machines = {}};
    for (int i = 0; i < 8; ++i) series.machines.push_back(fmt::format("machine-{}", i));
    for (int s = 0; s < 900; ++s) {
      series.times_s.push_back(s);
      for (int i = 0; i < 8; ++i)
        series.values.push_back(
            static_cast<float>(50 + 20 * std::sin(kTurn * (s - (i == 5 ? 3 : 0)) / period_s)));
    }
    const Pull pull = aligned({series}, {series.metric}, {});
    // Without a lag the correlation is about cos(2π·3/period): 0.99 and 0.59.
    EXPECT_EQ(clock_lags(pull).size(), period_s < 60 ? 1u : 0u) << period_s;
  }
}

TEST(Clocks, FaultsAreNoLags) {
  for (uint64_t seed = 100; seed < 110; ++seed)
    EXPECT_TRUE(
        clock_lags(labelled({.machines = 16, .seed = seed, .fault = "any", .glitches = true}).pull).empty())
        << seed;
}

// What a call holds beyond the samples it was given: distances, embeddings and traces of some windows, not
// pairs of machines of all windows.
TEST(Call, HoldsLittleBeyondItsSamples) {
  const Models models = raw_models();
  const Pull pull = labelled({.machines = 1024, .seed = 9, .fault = "none"}).pull;
  const int64_t before = reset_peak_resident_bytes();
  if (before < 0) GTEST_SKIP() << "the kernel does not let the peak be reset (/proc/self/clear_refs)";
  call(pull, models, {});
  EXPECT_LE(peak_resident_bytes() - before, int64_t{32} << 20);
}

}  // namespace
}  // namespace longhaul::detect
