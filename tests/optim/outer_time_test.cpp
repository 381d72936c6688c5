// ctest: label=full timeout=300
// Outer loops: the guard of CO2, what is hidden of a delayed exchange, how many steps a round takes, and a
// worker that is lost.
#include <gmock/gmock.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/wrappers/delayed.h"
#include "outer_for_tests.h"

namespace longhaul::optim {
namespace {

using ::testing::HasSubstr;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

TEST(OuterTimes, TheGuardMakesARoundSynchronousWhereWeightsMoveFurtherAndFurther) {
  Problem problem{.workers = 2,
                  .steps = 60,
                  .noise = 0,
                  .lr = [](int64_t) { return 0.1; },
                  .alike = true,
                  .curvature = {0.5, 0.4, 0.45}};
  OuterOptions options{
      .method = Outer::kCo2, .every = 2, .momentum = 0.9, .lr = 2, .clip = 0, .gap = OuterGap::kConstant};
  std::vector<OuterRound> guarded, free;
  const Seen with = on_ranks(options, problem, &guarded);
  options.guard = false;
  const Seen without = on_ranks(options, problem, &free);
  const auto acted = [](const OuterRound& round) {
    return round.synchronous.find("guard") != std::string::npos;
  };
  EXPECT_GT(std::ranges::count_if(guarded, acted), 0);
  EXPECT_EQ(std::ranges::count_if(free, acted), 0);
  double furthest_with = 0, furthest_without = 0;
  for (size_t s = 0; s < with.weights.size(); ++s) {
    furthest_with = std::max(furthest_with, std::abs(with.weights[s][0][0]));
    furthest_without = std::max(furthest_without, std::abs(without.weights[s][0][0]));
  }
  EXPECT_LT(furthest_with, furthest_without / 2);
}

// Far from the minimum rounds move as far as the rate lets them: that they move further while it rises is no
// alarm.
TEST(OuterTimes, TheGuardLetsARisingRateBe) {
  Problem problem{
      .workers = 2,
      .steps = 24,
      .noise = 0,
      .lr = [](int64_t step) { return 1e-3 * std::pow(1.2, static_cast<double>((step - 1) / 2)); },
      .alike = true,
      .curvature = {0.01, 0.02}};
  std::vector<OuterRound> rounds;
  on_ranks({.method = Outer::kCo2, .every = 2, .momentum = 0, .clip = 0, .gap = OuterGap::kConstant}, problem,
           &rounds);
  ASSERT_EQ(rounds.size(), 12u);
  for (size_t r = 3; r + 1 < rounds.size(); ++r) {
    EXPECT_GT(rounds[r].movement, 1.15 * rounds[r - 1].movement) << r;
    EXPECT_EQ(rounds[r].synchronous, "") << r;
  }
}

TEST(OuterTimes, ARoundIsSynchronousWhereTheLearningRateHasFallen) {
  Problem problem{.steps = 12, .lr = [](int64_t step) { return step <= 6 ? 0.05 : 0.005; }};
  std::vector<OuterRound> rounds;
  on_ranks({.method = Outer::kCo2, .every = 2}, problem, &rounds);
  ASSERT_EQ(rounds.size(), 6u);
  EXPECT_THAT(rounds[3].synchronous, HasSubstr("learning rate"));
  EXPECT_EQ(rounds[2].synchronous, "");
  EXPECT_EQ(rounds[4].synchronous, "");
}

TEST(OuterTimes, AMeanThatIsNotFiniteEndsTheRun) {
  Problem problem{.lr = [](int64_t step) { return step == 4 ? 1e308 : 0.05; }};
  try {
    on_ranks({.method = Outer::kLocalSgd, .every = 2}, problem);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kNumeric);
    EXPECT_THAT(error.what(), HasSubstr("not finite"));
  }
}

TEST(OuterTimes, TheNumberOfStepsFollowsFromTimes) {
  const OuterChoice hidden = choose_every(true, 0.5, 5.6, 0.01, 100000);
  EXPECT_EQ(hidden.every, 13);  // 1.15 · 5.6 / 0.5
  EXPECT_THAT(hidden.reason, HasSubstr("hidden"));
  EXPECT_EQ(choose_every(true, 0.5, 0.0, 0.05, 100000).every, 3);  // weights take a thirtieth
  EXPECT_EQ(choose_every(true, 0.5, 0.1, 0.0, 100000).every, 1);
  EXPECT_EQ(choose_every(false, 0.5, 0.5, 0.0, 100000).every, 20);
  EXPECT_EQ(choose_every(true, 0.5, 5.6, 0.01, 100000, 4).every, 16);  // four fragments at equal distances
  const OuterChoice too_long = choose_every(true, 0.5, 5.6, 0.01, 10);
  EXPECT_EQ(too_long.every, 5);
  EXPECT_THAT(too_long.reason, HasSubstr("13 would be right"));
}

void keep_busy(double seconds) {
  const int64_t until = monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
  while (monotonic_ns() < until) continue;
}

// A link on which an exchange takes 0.1 s. Two steps of 0.08 s hide it; one of no time does not, nor does a
// method that waits. A busy machine makes steps longer, and what is hidden stays so.
double waited_in_rounds(Outer method, int64_t every, double step_s) {
  constexpr double kExchange_s = 0.1;
  Problem problem{.workers = 2, .steps = 4 * every};
  double waited = 0;
  comm::run_ranks(2, [&](comm::Communicator& threads) {
    comm::Delayed world(comm::borrowed(threads),
                        std::make_shared<comm::Link>(comm::LinkOptions{.latency_s = kExchange_s}));
    Worker worker(problem,
                  {.method = method, .every = every, .gap = OuterGap::kConstant, .synchronous_start = false},
                  world);
    double own = 0;
    for (int64_t step = 1; step <= problem.steps; ++step) {
      keep_busy(step_s);
      const auto round = worker.step(problem, step);
      if (round && round->synchronous.empty()) own += round->waited_s;  // the last one of co2 is
    }
    if (threads.rank() == 0) waited = own;
  });
  return waited / 3 / kExchange_s;
}

// Of three tries the best: what else a busy machine does may keep the link from looking at its clock.
double least_waited(Outer method, int64_t every, double step_s) {
  double least = waited_in_rounds(method, every, step_s);
  for (int tries = 1; tries < 3 && least > 0.3; ++tries)
    least = std::min(least, waited_in_rounds(method, every, step_s));
  return least;
}

TEST(OuterTimes, LateMethodsHideExchangesBehindSteps) {
  EXPECT_LT(least_waited(Outer::kCo2, 2, 0.08), 0.3);
  EXPECT_GT(waited_in_rounds(Outer::kCo2, 1, 0), 0.6);  // two of the three rounds have something to wait for
  EXPECT_LT(least_waited(Outer::kDelayCorrected, 2, 0.08), 0.3);
  EXPECT_GT(waited_in_rounds(Outer::kDelayCorrected, 1, 0), 0.6);
  EXPECT_GT(waited_in_rounds(Outer::kSlowmo, 2, 0.08), 1);
}

TEST(OuterTimes, ChoosesTheNumberOfStepsInItsFirstRound) {
  Problem problem{.workers = 2, .steps = 400};
  comm::run_ranks(2, [&](comm::Communicator& threads) {
    comm::Delayed world(comm::borrowed(threads),
                        std::make_shared<comm::Link>(comm::LinkOptions{.latency_s = 0.02}));
    Worker worker(problem, {.method = Outer::kCo2}, world);
    std::optional<OuterRound> round;
    for (int64_t step = 1; !round; ++step) {
      ASSERT_LE(step, 5);
      round = worker.loop->after_step(
          {.lr = 0.1, .loss = 1, .seconds = step == 1 ? 10.0 : 0.01, .left = problem.steps - step});
    }
    ASSERT_TRUE(round->choice);
    EXPECT_EQ(round->choice->step_s, 0.01);  // the first step does not count
    EXPECT_GE(round->choice->exchange_s, 0.02);
    EXPECT_GE(round->choice->every, 3);  // 1.15 · 0.02 / 0.01
    EXPECT_EQ(worker.loop->every(), round->choice->every);
  });
}

// Saves in memory are made where they wait for nothing, or least: once a round.
TEST(OuterTimes, ARoundHasAStepAtWhichASaveWaitsLeast) {
  struct Row {
    OuterOptions options;
    std::vector<int64_t> steps;  // of 12
  };
  for (const Row& row : {Row{{.method = Outer::kLocalSgd, .every = 4}, {4, 8, 12}},
                         Row{{.method = Outer::kCo2, .every = 4}, {3, 7, 11}},
                         Row{{.method = Outer::kDelayCorrected, .every = 4, .delay = 2}, {2, 6, 10}},
                         Row{{.method = Outer::kStreaming, .every = 8, .fragments = 2}, {3, 7, 11}}}) {
    const Problem problem{.workers = 2, .steps = 100};
    std::vector<int64_t> found;
    comm::run_ranks(2, [&](comm::Communicator& world) {
      Worker worker(problem, row.options, world);
      for (int64_t step = 1; step <= 12; ++step) {
        worker.step(problem, step);
        if (world.rank() == 0 && worker.loop->saves_well()) found.push_back(step);
      }
    });
    EXPECT_EQ(found, row.steps);
  }
}

// Whoever waits for a worker that is gone is told; nobody hangs.
TEST(OuterTimes, ALostWorkerIsTold) {
  Problem problem;
  try {
    comm::run_ranks(problem.workers, [&](comm::Communicator& world) {
      Worker worker(problem, {.method = Outer::kCo2, .every = 3}, world);
      for (int64_t step = 1; step <= problem.steps; ++step) {
        if (world.rank() == 1 && step == 5)
          throw Error({.code = ExitCode::kData, .what = "the machine is gone"});
        worker.step(problem, step);
      }
    });
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the machine is gone"));
  }
}

}  // namespace
}  // namespace longhaul::optim
