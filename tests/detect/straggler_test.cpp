// Virtual hosts whose times are known: compute = work / speed + noise, a step ends when the last one has
// come, and each waits for the others in one call. What is planted must be named, and nothing else.
#include "detect/straggler/straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "detect/straggler/work_fit.h"

namespace longhaul::detect {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Cause = Straggler::Cause;

struct Cluster {
  size_t hosts = 200;
  int64_t steps = 120;
  double scatter = 0.01, noise = 0.03;  // of speed between hosts, of a step
  double base_s = 1, transfer_s = 0.05;
  // of compute
  std::function<double(size_t host, int64_t step)> factor = [](size_t, int64_t) { return 1.0; };
  // none: not told
  std::function<Work(size_t host, int64_t step, std::mt19937_64&)> work{};
  std::function<double(size_t host)> data_s = [](size_t) { return 0.0; };
  bool tell_compute = true, tell_calls = true;
};

StepTimes simulate(const Cluster& cluster, uint64_t seed) {
  std::mt19937_64 dice(seed);
  std::normal_distribution<double> normal;
  StepTimes times;
  std::vector<double> own;
  for (size_t i = 0; i < cluster.hosts; ++i) {
    times.ranks.push_back({.rank = static_cast<int64_t>(i), .host = fmt::format("node-{}", i)});
    own.push_back(1 + cluster.scatter * normal(dice));
  }
  for (int64_t s = 1; s <= cluster.steps; ++s) {
    TimedStep& step = times.steps.emplace_back();
    step.step = s;
    CallTimes call{.group = "world", .kind = "all_reduce", .members = {}, .in_it_s = {}};
    std::vector<double> came;
    for (size_t i = 0; i < cluster.hosts; ++i) {
      const Work work = cluster.work ? cluster.work(i, s, dice) : Work{};
      const double amount = cluster.work
                                ? work.tokens * 1e-3 + work.length_squares * 1e-6 + work.expert_rows * 1e-4
                                : cluster.base_s;
      double compute_s =
          amount * own[i] * cluster.factor(i, s) * (1 + cluster.noise * std::abs(normal(dice)));
      if (dice() % 2000 == 0) compute_s *= 1.5;  // a hiccup, of anybody: of 200 hosts one in each tenth step
      came.push_back(compute_s + cluster.data_s(i));
      step.ranks.push_back({.compute_s = cluster.tell_compute ? compute_s : kUnknown,
                            .data_s = cluster.data_s(i),
                            .wait_s = 0,
                            .work = work});
    }
    const double last = *std::ranges::max_element(came);
    step.step_s = last + cluster.transfer_s;
    for (size_t i = 0; i < cluster.hosts; ++i) {
      call.members.push_back(i);
      call.in_it_s.push_back(step.step_s - came[i]);
      step.ranks[i].wait_s = step.step_s - came[i];
    }
    if (cluster.tell_calls) step.calls.push_back(call);
  }
  return times;
}

std::vector<int64_t> ranks_of(const StragglerReport& report, Cause cause) {
  std::vector<int64_t> ranks;
  for (const Straggler& each : report.stragglers) {
    if (each.cause == cause) ranks.push_back(each.rank);
  }
  return ranks;
}

TEST(Straggler, OneHostATenthSlowAmong200IsNamedAndNobodyElse) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const size_t slow = seed * 37 % 200;
    const StragglerReport report = find_stragglers(
        simulate({.factor = [slow](size_t host, int64_t) { return host == slow ? 1.1 : 1.0; }}, seed));
    ASSERT_EQ(report.stragglers.size(), 1u) << seed << "\n" << text_of(report);
    EXPECT_EQ(report.stragglers[0].rank, static_cast<int64_t>(slow));
    EXPECT_EQ(report.stragglers[0].host, fmt::format("node-{}", slow));
    EXPECT_EQ(report.stragglers[0].cause, Cause::kSlow);
    EXPECT_NEAR(report.stragglers[0].slower, 0.1, 0.035);  // the host's own scatter of 1 %, three times
    EXPECT_THAT(report.groups, IsEmpty());
    EXPECT_FALSE(report.change);
  }
}

TEST(Straggler, NobodyIsNamedWhereNobodyIsSlow) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    for (const size_t hosts : {2, 4, 7, 16, 200}) {
      if (hosts == 200 && seed > 10) continue;
      const StragglerReport report = find_stragglers(simulate({.hosts = hosts}, seed));
      EXPECT_THAT(report.stragglers, IsEmpty()) << seed << " of " << hosts << "\n" << text_of(report);
      EXPECT_FALSE(report.change) << seed << " of " << hosts;
    }
  }
}

TEST(Straggler, AHostIsNamedAmongFew) {
  for (const size_t hosts : {2, 3, 4, 8}) {
    const StragglerReport report = find_stragglers(simulate(
        {.hosts = hosts, .factor = [](size_t host, int64_t) { return host == 1 ? 1.3 : 1.0; }}, hosts));
    EXPECT_THAT(ranks_of(report, Cause::kSlow), ElementsAre(1)) << hosts;
    EXPECT_LT(report.stragglers.at(0).score, 0.85);
    EXPECT_GT(report.stragglers.at(0).last, 0.8);
  }
}

// Documents are packed: rank 17's are always long, rank 23's machine is slow.
Work packed(size_t host, std::mt19937_64& dice) {
  Work work{.tokens = 1000, .length_squares = 0, .expert_rows = static_cast<double>(500 + dice() % 1000)};
  if (host == 17) return {.tokens = 1000, .length_squares = 1e6, .expert_rows = work.expert_rows};
  for (double left = 1000; left > 0;) {
    const double length = std::min(left, static_cast<double>(50 + dice() % 450));
    work.length_squares += length * length;
    left -= length;
  }
  return work;
}

TEST(Straggler, MoreWorkIsNoSlowMachine) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Cluster cluster{.work = [](size_t host, int64_t, std::mt19937_64& dice) { return packed(host, dice); }};
    StragglerReport report = find_stragglers(simulate(cluster, seed));
    EXPECT_THAT(ranks_of(report, Cause::kSlow), IsEmpty()) << text_of(report);
    EXPECT_THAT(ranks_of(report, Cause::kWork), ElementsAre(17)) << text_of(report);
    cluster.factor = [](size_t host, int64_t) { return host == 23 ? 1.1 : 1.0; };
    report = find_stragglers(simulate(cluster, seed));
    EXPECT_THAT(ranks_of(report, Cause::kSlow), ElementsAre(23)) << text_of(report);
    // slow, and with more to do
    cluster.factor = [](size_t host, int64_t) { return host == 17 ? 1.2 : 1.0; };
    report = find_stragglers(simulate(cluster, seed));
    EXPECT_THAT(ranks_of(report, Cause::kSlow), ElementsAre(17)) << text_of(report);
  }
}

TEST(Straggler, WarmUpAndSinglePausesCountForNothing) {
  const auto factor = [](size_t host, int64_t step) {
    if (step <= 5) return 2.0 + static_cast<double>(host % 9);  // caches fill, memory is taken
    if (host == 3 && step > 40 && step <= 60) return 3.0;       // a neighbour's job, gone again
    if (host == 5 && step % 20 == 0) return 6.0;                // its logs are written
    return step % 50 == 0 ? 4.0 : 1.0;                          // all save a checkpoint
  };
  const StragglerReport report = find_stragglers(simulate({.hosts = 64, .factor = factor}, 3));
  EXPECT_THAT(report.stragglers, IsEmpty()) << text_of(report);
}

TEST(Straggler, ASlowLinkIsALinkAndNoRank) {
  StepTimes times = simulate({.hosts = 32, .tell_calls = false}, 5);
  std::mt19937_64 dice(1);
  for (TimedStep& step : times.steps) {  // groups of four; that of ranks 12 to 15 has a bad cable
    for (size_t group = 0; group < 8; ++group) {
      CallTimes call{
          .group = fmt::format("world/dp {}", group), .kind = "all_reduce", .members = {}, .in_it_s = {}};
      double last = 0;
      for (size_t i = 4 * group; i < 4 * group + 4; ++i) last = std::max(last, step.ranks[i].compute_s);
      const double transfer_s = (group == 3 ? 0.2 : 0.05) * (1 + static_cast<double>(dice() % 100) * 1e-3);
      for (size_t i = 4 * group; i < 4 * group + 4; ++i) {
        call.members.push_back(i);
        call.in_it_s.push_back(last - step.ranks[i].compute_s + transfer_s);
      }
      step.calls.push_back(call);
    }
  }
  const StragglerReport report = find_stragglers(times);
  EXPECT_THAT(report.stragglers, IsEmpty()) << text_of(report);
  ASSERT_EQ(report.groups.size(), 1u);
  EXPECT_EQ(report.groups[0].group, "world/dp 3");
  EXPECT_EQ(report.groups[0].kind, "all_reduce");
  EXPECT_NEAR(report.groups[0].longer, 3, 0.4);
  EXPECT_THAT(report.groups[0].ranks, ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(text_of(report), HasSubstr("links between ranks 12, 13, 14, 15"));
}

TEST(Straggler, WhoNeverWaitsIsNamedWhereNoComputingWasTimed) {
  const auto slow = [](size_t host, int64_t) { return host == 9 ? 1.4 : 1.0; };
  for (const bool calls : {true, false}) {
    const StragglerReport report = find_stragglers(
        simulate({.hosts = 24, .factor = slow, .tell_compute = false, .tell_calls = calls}, 2));
    EXPECT_THAT(ranks_of(report, Cause::kWaits), ElementsAre(9)) << text_of(report);
    EXPECT_EQ(report.stragglers.size(), 1u);
    EXPECT_GT(report.stragglers[0].lost_s, 0.2);
  }
  EXPECT_THAT(find_stragglers(simulate({.hosts = 24, .tell_compute = false}, 2)).stragglers, IsEmpty());
}

TEST(Straggler, LateDataAreNotTheProcessorsFault) {
  const StragglerReport report = find_stragglers(
      simulate({.hosts = 24, .data_s = [](size_t host) { return host == 6 ? 0.5 : 0.001; }}, 2));
  EXPECT_THAT(ranks_of(report, Cause::kData), ElementsAre(6));
  EXPECT_EQ(report.stragglers.size(), 1u);
}

// All wait half a second for data; one of them is late by something else. Its data are not it.
TEST(Straggler, DataThatAreLateForAllAreNobodysFault) {
  const StragglerReport report =
      find_stragglers(simulate({.hosts = 24,
                                .factor = [](size_t host, int64_t) { return host == 6 ? 1.4 : 1.0; },
                                .data_s = [](size_t) { return 0.5; },
                                .tell_compute = false},
                               2));
  EXPECT_THAT(ranks_of(report, Cause::kWaits), ElementsAre(6));
  EXPECT_THAT(ranks_of(report, Cause::kData), IsEmpty());
}

// One that takes two seconds where the others take one: they wait a second for it, in each step.
TEST(Straggler, WhatItCostsIsWhatTheOthersWait) {
  const StragglerReport report =
      find_stragglers(simulate({.hosts = 8,
                                .scatter = 0,
                                .noise = 0,
                                .factor = [](size_t host, int64_t) { return host == 1 ? 2.0 : 1.0; }},
                               1));
  ASSERT_EQ(report.stragglers.size(), 1u);
  EXPECT_EQ(report.stragglers[0].rank, 1);
  EXPECT_NEAR(report.stragglers[0].slower, 1, 0.01);
  EXPECT_NEAR(report.stragglers[0].lost_s, 1, 0.01);
}

TEST(Straggler, StagesOfAPipelineAreComparedWithTheirLike) {
  StepTimes times = simulate(
      {.hosts = 32, .factor = [](size_t host, int64_t) { return host < 16    ? 2.0
                                                                : host == 20 ? 1.2
                                                                             : 1.0; }},
      2);
  for (size_t i = 0; i < 32; ++i) times.ranks[i].peers = i < 16 ? 0 : 1;
  EXPECT_THAT(ranks_of(find_stragglers(times), Cause::kSlow), ElementsAre(20));
}

TEST(Straggler, OfFewStepsOrHolesNothingIsSaid) {
  const auto slow = [](size_t host, int64_t) { return host == 1 ? 2.0 : 1.0; };
  // 19 behind the warm-up
  EXPECT_EQ(find_stragglers(simulate({.hosts = 8, .steps = 24, .factor = slow}, 1)).steps, 0);
  EXPECT_EQ(find_stragglers(simulate({.hosts = 8, .steps = 25, .factor = slow}, 1)).stragglers.size(), 1u);
  EXPECT_EQ(find_stragglers({}).steps, 0);
  StepTimes times = simulate({.hosts = 8, .factor = slow}, 1);
  for (size_t s = 0; s < times.steps.size(); ++s) {
    if (s % 3 == 0) times.steps[s].ranks[1].compute_s = kUnknown;  // lost on the way
    times.steps[s].ranks[2].compute_s = kUnknown;
  }
  EXPECT_THAT(ranks_of(find_stragglers(times), Cause::kSlow), ElementsAre(1));
}

TEST(Straggler, RemediesComeWithTheirPrice) {
  const RemedyPrices prices{.replace_at_checkpoint_s = 100, .replace_now_s = 1000};
  EXPECT_EQ(remedy_for(99, prices), Remedy::kIgnore);
  EXPECT_EQ(remedy_for(100, prices), Remedy::kReplaceAtCheckpoint);
  EXPECT_EQ(remedy_for(1000, prices), Remedy::kReplaceNow);
}

TEST(WorkFit, FindsWhatTheTimesWereMadeOf) {
  std::mt19937_64 dice(4);
  std::vector<WorkSample> samples;
  for (int i = 0; i < 300; ++i) {
    const Work work{.tokens = static_cast<double>(500 + dice() % 1000),
                    .length_squares = static_cast<double>(dice() % 1000000),
                    .expert_rows = 0};
    const double seconds = 0.2 + 1e-3 * work.tokens + 2e-6 * work.length_squares;
    samples.push_back({work, i % 10 == 0 ? 3 * seconds : seconds});  // a tenth is disturbed
  }
  const WorkFit fit(samples);
  EXPECT_NEAR(fit.seconds({.tokens = 1000, .length_squares = 0, .expert_rows = 0}), 1.2, 1e-6);
  EXPECT_NEAR(fit.seconds({.tokens = 2000, .length_squares = 1e6, .expert_rows = 0}), 4.2, 1e-6);
}

TEST(WorkFit, EqualWorkEverywhereIsItsMean) {
  const std::vector<WorkSample> samples(7, {{.tokens = 4096, .length_squares = 1e5, .expert_rows = 0}, 0.25});
  EXPECT_NEAR(WorkFit(samples).seconds(samples[0].work), 0.25, 1e-12);
}

std::vector<double> noisy(size_t count, double seconds, double noise, uint64_t seed) {
  std::mt19937_64 dice(seed);
  std::normal_distribution<double> normal;
  std::vector<double> all;
  for (size_t i = 0; i < count; ++i) all.push_back(seconds * (1 + noise * std::abs(normal(dice))));
  return all;
}

TEST(StepChange, IsFoundWhereItIs) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::vector<double> steps = noisy(100, 1, 0.02, seed);
    for (const double each : noisy(30, 1.2, 0.02, seed + 100)) steps.push_back(each);
    const auto change = step_change(steps);
    ASSERT_TRUE(change) << seed;
    EXPECT_EQ(change->at, 100u) << seed;
    EXPECT_NEAR(change->slower(), 0.2, 0.03);
    EXPECT_FALSE(change->blocked);
  }
}

TEST(StepChange, NoiseSpikesAndWhatIsOverAreNone) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::vector<double> steps = noisy(400, 1, 0.08, seed);
    // four in a row
    for (size_t i = 30; i < steps.size(); i += 40) steps[i] = steps[i + 1] = steps[i + 2] = steps[i + 3] = 5;
    EXPECT_FALSE(step_change(steps)) << seed;
  }
  std::vector<double> over = noisy(60, 1, 0.01, 1);
  for (const double each : noisy(30, 1.5, 0.01, 2)) over.push_back(each);
  EXPECT_TRUE(step_change(over));
  for (const double each : noisy(30, 1, 0.01, 3)) over.push_back(each);
  EXPECT_FALSE(step_change(over));
  EXPECT_FALSE(step_change(std::vector<double>(8, 1.0)));
}

TEST(StepChange, ARunThatHardlyMovesIsCalledBlocked) {
  std::vector<double> steps = noisy(40, 1, 0.02, 1);
  steps.resize(50, 6.0);
  ASSERT_TRUE(step_change(steps));
  EXPECT_TRUE(step_change(steps)->blocked);
}

// Blocked is five times as slow as before, however long a step takes.
TEST(StepChange, BlockedIsMeasuredInStepsOfTheRunItself) {
  for (const double usual_s : {0.1, 2.0}) {
    for (const double times : {4.0, 6.0}) {
      std::vector<double> steps = noisy(40, usual_s, 0.01, 1);
      steps.resize(60, times * usual_s);
      const auto change = step_change(steps);
      ASSERT_TRUE(change);
      EXPECT_EQ(change->blocked, times > 5) << usual_s << " s, " << times;
    }
  }
}

// Three ranks of a recorded run, by hand: rank 2 computes 30 ms, the others 20, and they meet in a call of 1
// ms. Its clock is an hour ahead.
TEST(Straggler, IsTakenFromATrace) {
  std::vector<observe::RankTrace> traces(3);
  for (int64_t rank = 0; rank < 3; ++rank) {
    observe::RankTrace& trace = traces[static_cast<size_t>(rank)];
    trace.rank.rank = rank;
    const int64_t clock = rank == 2 ? 3600'000'000'000 : 0, ms = 1'000'000;
    for (int64_t s = 1; s <= 40; ++s) {
      const int64_t begin = clock + s * 40 * ms, computed = begin + 2 * ms + (rank == 2 ? 28 : 18) * ms,
                    end = begin + 31 * ms;
      trace.steps.push_back(
          {.step = s,
           .begin_ns = begin,
           .end_ns = end,
           .spans = {{.kind = observe::SpanKind::kData, .begin_ns = begin, .end_ns = begin + 2 * ms},
                     {.kind = observe::SpanKind::kForward, .begin_ns = begin + 2 * ms, .end_ns = end}},
           .calls = {{.group = "world",
                      .kind = "all_reduce",
                      .name = "gradients",
                      .sequence = s,
                      .begin_ns = computed,
                      .end_ns = end,
                      .started_ns = computed,
                      .waited_from_ns = computed,
                      .waited_until_ns = end}}});
    }
  }
  traces[1].steps.erase(traces[1].steps.begin());  // lost
  const StepTimes times = step_times(traces);
  ASSERT_EQ(times.steps.size(), 39u);
  EXPECT_EQ(times.steps[0].step, 2);
  EXPECT_NEAR(times.steps[0].ranks[0].compute_s, 0.018, 1e-12);
  EXPECT_NEAR(times.steps[0].ranks[2].compute_s, 0.028, 1e-12);
  EXPECT_NEAR(times.steps[0].ranks[0].data_s, 0.002, 1e-12);
  EXPECT_NEAR(times.steps[0].ranks[0].wait_s, 0.011, 1e-12);
  ASSERT_EQ(times.steps[0].calls.size(), 1u);
  EXPECT_THAT(times.steps[0].calls[0].in_it_s,
              ElementsAre(::testing::DoubleNear(0.011, 1e-12), ::testing::DoubleNear(0.011, 1e-12),
                          ::testing::DoubleNear(0.001, 1e-12)));
  const StragglerReport report = find_stragglers(times);
  ASSERT_EQ(report.stragglers.size(), 1u) << text_of(report);
  EXPECT_EQ(report.stragglers[0].rank, 2);
  EXPECT_EQ(report.stragglers[0].last, 1.0);
}

}  // namespace
}  // namespace longhaul::detect
