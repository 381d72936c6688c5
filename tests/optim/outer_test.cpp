// ctest: label=full timeout=300
// Outer loops on ranks that are threads, beside a plain simulation written from the papers' equations (specs: co2.md §2, §3, §8): every worker's
// weights behind every step. Known values and limits, the guard, what is hidden of a delayed exchange, and a worker that is lost.
#include "optim/outer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "comm/delayed.h"
#include "comm/run_ranks.h"
#include "optim/optimizer.h"
#include "parameters_for_tests.h"

namespace longhaul::optim {
namespace {

using recipe::Outer;
using recipe::OuterGap;
using recipe::OuterOptions;
using ::testing::HasSubstr;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

using Vector = std::vector<double>;

// Each worker pulls towards a point of its own, with some noise; elements have curvatures from stiff to flat.
struct Problem {
  int64_t workers = 3, steps = 13;
  double noise = 0.1;
  std::function<double(int64_t step)> lr = [](int64_t) { return 0.05; };
  bool alike = false;  // all workers see the same
  Vector curvature = {8, 3, 1, 0.3, 0.05, 5, 2, 0.7, 0.1, 1.5};

  double start(size_t i) const { return 1 + 0.1 * static_cast<double>(i); }
  double gradient(int64_t worker, int64_t step, size_t i, double w) const {
    const auto k = static_cast<double>(i), who = alike ? 0 : static_cast<double>(worker), when = static_cast<double>(step);
    return curvature[i] * (w - 0.3 * std::sin(who + k)) + noise * std::sin(1.7 * who + 2.3 * when + 0.9 * k);
  }
};

struct Seen {
  std::vector<std::vector<Vector>> weights;  // by step, by worker
  Vector gaps;                               // by round
  std::vector<std::string> synchronous;
};

double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// ---- the reference: plain loops over all workers, one process

class Simulation {
 public:
  Simulation(const OuterOptions& options, const Problem& problem) : options_(options), problem_(problem) {
    for (size_t i = 0; i < problem.curvature.size(); ++i) x_.push_back(problem.start(i));
    m_.assign(x_.size(), 0);
    w_.assign(static_cast<size_t>(problem.workers), x_);
  }

  Seen run() {
    Seen seen;
    int64_t k = 0, round = 0;
    double first_step = 0;
    for (int64_t step = 1; step <= problem_.steps; ++step) {
      for (size_t worker = 0; worker < w_.size(); ++worker) {
        for (size_t i = 0; i < x_.size(); ++i)
          w_[worker][i] -= problem_.lr(step) * problem_.gradient(static_cast<int64_t>(worker), step, i, w_[worker][i]);
      }
      if (++k == 1) {
        first_step = 0;
        for (const Vector& own : w_) first_step += distance(own, x_) / static_cast<double>(w_.size());
      }
      if (k == options_.every || step == problem_.steps) {
        std::string why;
        if (options_.method == Outer::kCo2) {
          if (round == 0 && options_.synchronous_start) why = "first";
          if (step == problem_.steps) why = "last";
        }
        double gap = 1;
        end_round(problem_.lr(step), k, first_step, !why.empty(), gap);
        seen.gaps.push_back(gap);
        seen.synchronous.push_back(why);
        for (Vector& own : w_) own = x_;
        k = 0;
        ++round;
      }
      seen.weights.push_back(w_);
    }
    return seen;
  }

 private:
  void end_round(double lr, int64_t k, double first_step, bool synchronous, double& gap) {
    Vector delta(x_.size());
    for (size_t i = 0; i < x_.size(); ++i) {
      double mean = 0;
      for (const Vector& own : w_) mean += own[i] / static_cast<double>(w_.size());
      delta[i] = x_[i] - mean;
    }
    const double alpha = recipe::outer_lr_of(options_), beta = recipe::outer_momentum_of(options_), gamma = options_.by_lr ? lr : 1;
    if (synchronous || options_.method == Outer::kLocalSgd) {
      for (size_t i = 0; i < x_.size(); ++i) x_[i] -= (synchronous ? 1 : alpha) * delta[i], m_[i] = 0;
      late_.reset();
    } else if (options_.method != Outer::kCo2) {
      for (size_t i = 0; i < x_.size(); ++i) {
        m_[i] = beta * m_[i] + delta[i] / gamma;
        x_[i] -= alpha * gamma * (options_.method == Outer::kDiloco ? delta[i] / gamma + beta * m_[i] : m_[i]);
      }
    } else {
      const Vector before = x_;
      if (late_) {
        gap =
            options_.gap == OuterGap::kConstant ? options_.gap_value : 1 + moved_ / (static_cast<double>(late_->steps) * late_->first_step);
        for (size_t i = 0; i < x_.size(); ++i) {
          m_[i] = beta * m_[i] + late_->delta[i] / gap / gamma;
          if (options_.clip > 0) m_[i] = std::max(-options_.clip, std::min(options_.clip, m_[i]));
          x_[i] -= alpha * gamma * m_[i];
        }
      }
      moved_ = distance(x_, before);
      late_ = Late{delta, first_step, k};
    }
  }

  struct Late {
    Vector delta;
    double first_step = 0;
    int64_t steps = 0;
  };
  OuterOptions options_;
  Problem problem_;
  Vector x_, m_;
  std::vector<Vector> w_;
  std::optional<Late> late_;
  double moved_ = 0;
};

// ---- the same by ranks that are threads, each a worker

recipe::OptimOptions plain_sgd() {
  recipe::OptimOptions options;
  options.name = "sgd";
  options.momentum = 0;
  options.weight_decay = 0;
  return options;
}

std::vector<layout::ParameterSpec> problem_specs(size_t elements) {
  std::vector<layout::ParameterSpec> specs;
  if (elements >= 4) {
    specs.push_back(spec("matrix", {2, 2}, false));
    elements -= 4;
  }
  specs.push_back(spec("vector", {static_cast<int64_t>(elements)}, false));
  return specs;
}

// One worker's model: elements in the order of the problem.
struct Worker {
  Worker(const Problem& problem, const OuterOptions& options, comm::Communicator& world)
      : set(problem_specs(problem.curvature.size()), Precision::named("fp64"), at::kCPU),
        ranks(world, {.mesh = layout::Mesh(1, {}), .workers = world.size()}) {
    for (const auto& each : set.specs()) set.add_stacked(each.tensor.name, {each.tensor.name});
    set.allocate();
    for_each([&](size_t i, double& value, double&) { value = problem.start(i); });
    optimizer = make_optimizer(plain_sgd(), set, Precision::named("fp64"));
    loop = std::make_unique<OuterLoop>(options, *optimizer, set, ranks);
  }
  void for_each(const std::function<void(size_t i, double& value, double& gradient)>& body) {
    size_t i = 0;
    for (const auto& parameter : set.all()) {
      double* const value = static_cast<double*>(parameter->value.data_ptr());
      double* const gradient = static_cast<double*>(parameter->grad.data_ptr());
      for (int64_t at = 0; at < parameter->value.numel(); ++at) body(i++, value[at], gradient[at]);
    }
  }
  std::optional<OuterRound> step(const Problem& problem, int64_t step) {
    for_each([&](size_t i, double& value, double& gradient) { gradient = problem.gradient(ranks.worker(), step, i, value); });
    optimizer->step({.lr = problem.lr(step)});
    return loop->after_step({.lr = problem.lr(step), .loss = 1.0 + static_cast<double>(ranks.worker()), .left = problem.steps - step});
  }
  Vector weights() {
    Vector all;
    for_each([&](size_t, double& value, double&) { all.push_back(value); });
    return all;
  }

  model::ParameterSet set;
  parallel::Ranks ranks;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<OuterLoop> loop;
};

Seen on_ranks(const OuterOptions& options, const Problem& problem, std::vector<OuterRound>* rounds = nullptr) {
  Seen seen;
  seen.weights.assign(static_cast<size_t>(problem.steps), std::vector<Vector>(static_cast<size_t>(problem.workers)));
  comm::run_ranks(problem.workers, [&](comm::Communicator& world) {
    Worker worker(problem, options, world);
    for (int64_t step = 1; step <= problem.steps; ++step) {
      const auto round = worker.step(problem, step);
      seen.weights[static_cast<size_t>(step - 1)][static_cast<size_t>(world.rank())] = worker.weights();
      if (!round || world.rank() != 0) continue;
      seen.gaps.push_back(round->gap);
      seen.synchronous.push_back(round->synchronous);
      if (rounds != nullptr) rounds->push_back(*round);
    }
  });
  return seen;
}

// Sums over three workers are taken in another order than means: some units of the last place, which rounds carry on.
constexpr double kRounding = 1e-12;

void expect_same(const Seen& found, const Seen& expected, const std::string& what) {
  ASSERT_EQ(found.weights.size(), expected.weights.size());
  for (size_t s = 0; s < found.weights.size(); ++s) {
    for (size_t w = 0; w < found.weights[s].size(); ++w) {
      for (size_t i = 0; i < found.weights[s][w].size(); ++i) {
        EXPECT_NEAR(found.weights[s][w][i], expected.weights[s][w][i], kRounding * std::max(1.0, std::abs(expected.weights[s][w][i])))
            << what << ": step " << s + 1 << " worker " << w << " element " << i;
      }
    }
  }
  ASSERT_EQ(found.gaps.size(), expected.gaps.size()) << what;
  for (size_t r = 0; r < found.gaps.size(); ++r) {
    EXPECT_NEAR(found.gaps[r], expected.gaps[r], kRounding * expected.gaps[r]) << what << " round " << r;
    EXPECT_EQ(found.synchronous[r].empty(), expected.synchronous[r].empty()) << what << " round " << r;
  }
}

TEST(OuterLoop, EveryMethodIsItsEquations) {
  const std::vector<std::pair<const char*, OuterOptions>> all = {
      {"local_sgd", {.method = Outer::kLocalSgd, .every = 3}},
      {"slowmo", {.method = Outer::kSlowmo, .every = 3}},
      {"slowmo by lr", {.method = Outer::kSlowmo, .every = 2, .momentum = 0.7, .lr = 0.9, .by_lr = true}},
      {"diloco", {.method = Outer::kDiloco, .every = 4}},
      {"co2", {.method = Outer::kCo2, .every = 3}},
      {"co2 without momentum", {.method = Outer::kCo2, .every = 2, .momentum = 0, .synchronous_start = false}},
      {"co2 without penalty", {.method = Outer::kCo2, .every = 3, .gap = OuterGap::kConstant, .guard = false}},
      {"co2 half", {.method = Outer::kCo2, .every = 1, .lr = 0.7, .gap = OuterGap::kConstant, .gap_value = 2, .synchronous_start = false}},
      {"co2 clipped", {.method = Outer::kCo2, .every = 3, .clip = 0.02, .synchronous_start = false}},
      {"co2 by lr", {.method = Outer::kCo2, .every = 3, .momentum = 0.4, .by_lr = true, .clip = 0}}};
  for (const auto& [name, options] : all) {
    Problem problem;
    problem.lr = [](int64_t step) { return 0.05 - 0.001 * static_cast<double>(step); };
    expect_same(on_ranks(options, problem), Simulation(options, problem).run(), name);
    problem.workers = 4;
    problem.steps = 12;
    expect_same(on_ranks(options, problem), Simulation(options, problem).run(), name);
  }
}

TEST(OuterLoop, TellsWhatARoundCameTo) {
  std::vector<OuterRound> rounds;
  const OuterOptions options{.method = Outer::kCo2, .every = 3, .clip = 1e-4, .synchronous_start = false};
  Problem problem;
  on_ranks(options, problem, &rounds);
  ASSERT_EQ(rounds.size(), 5u);
  EXPECT_EQ(rounds[0].applied, std::nullopt);
  EXPECT_EQ(rounds[0].movement, 0);
  EXPECT_EQ(rounds[1].applied, 0);
  EXPECT_EQ(rounds[2].applied, 1);
  EXPECT_EQ(rounds[4].applied, 4);
  EXPECT_EQ(rounds[4].steps, 1);
  EXPECT_THAT(rounds[4].synchronous, HasSubstr("last"));
  EXPECT_GT(rounds[2].gap, 1);
  EXPECT_EQ(rounds[1].clipped, 1);  // all elements move further than that
  EXPECT_NEAR(rounds[1].momentum, 1e-4 * std::sqrt(10.0), 1e-15);
  for (size_t r = 1; r < rounds.size(); ++r) EXPECT_NEAR(rounds[r].loss, 2.0, 1e-12);  // the mean of 1, 2 and 3
}

// specs: co2.md §12; one element, curvature 1.
TEST(OuterLoop, KnownValuesOfCo2) {
  Problem problem{.workers = 2, .steps = 43, .noise = 0, .lr = [](int64_t) { return 0.1; }, .alike = true, .curvature = {1}};
  const OuterOptions options{.method = Outer::kCo2,
                             .every = 6,
                             .momentum = 0.2,
                             .clip = 0,
                             .gap = OuterGap::kConstant,
                             .guard = false,
                             .synchronous_start = false};
  // The problem's own minimum is 0.3 sin(0) = 0, and it starts at 1.
  const Seen seen = on_ranks(options, problem);
  const Vector anchors = {1, 0.531441, -0.030830, -0.392295, -0.450143, -0.277899, -0.032532};
  for (size_t t = 0; t < anchors.size(); ++t) {
    const double found = seen.weights[6 * (t + 1) - 1][0][0];  // behind round t all are at x of round t + 1
    EXPECT_NEAR(found, anchors[t], 6e-7) << t;                 // the table has six digits
  }
}

// Where nothing is hidden or damped, x_{t+1} = (1 + β) x_t - (β + α δ) x_{t-1}... of which the product of the roots, β + α δ / Λ, is what
// x_t² - x_{t+1} x_{t-1} grows by from round to round, and its root the spectral radius where roots are complex.
TEST(OuterLoop, SpectralRadiiOfTheStabilityTable) {
  struct Row {
    double beta, delta, radius;
  };
  for (const Row& row : {Row{0, 0.05, 0.947}, Row{0, 0.5, 0.707}, Row{0, 0.95, 0.975}, Row{0.2, 0.5, 0.837}, Row{0.2, 0.95, 1.072},
                         Row{0.5, 0.05, 0.862}, Row{0.5, 0.5, 1.000}, Row{0.5, 0.95, 1.204}}) {
    // One step of curvature 1 and lr δ takes δ of the error away.
    Problem problem{.workers = 2, .steps = 16, .noise = 0, .lr = [&](int64_t) { return row.delta; }, .alike = true, .curvature = {1}};
    const OuterOptions options{.method = Outer::kCo2,
                               .every = 1,
                               .momentum = row.beta,
                               .clip = 0,
                               .gap = OuterGap::kConstant,
                               .guard = false,
                               .synchronous_start = false};
    const Seen seen = on_ranks(options, problem);
    const auto x = [&](size_t t) { return seen.weights[t][0][0]; };
    const auto determinant = [&](size_t t) { return x(t) * x(t) - x(t + 1) * x(t - 1); };
    const double product = determinant(7) / determinant(6), trace = 1 + row.beta;
    EXPECT_NEAR(product, row.beta + row.delta, 1e-6) << row.beta << " " << row.delta;
    const double root = trace * trace / 4 - product;
    const double radius = root < 0 ? std::sqrt(product) : trace / 2 + std::sqrt(root);
    EXPECT_NEAR(radius, row.radius, 6e-4) << row.beta << " " << row.delta;
  }
}

TEST(OuterLoop, RoundsOfOneStepWithoutMomentumAreSynchronousSgd) {
  Problem problem;
  const Seen seen = on_ranks({.method = Outer::kLocalSgd, .every = 1}, problem);
  Vector w;
  for (size_t i = 0; i < problem.curvature.size(); ++i) w.push_back(problem.start(i));
  for (int64_t step = 1; step <= problem.steps; ++step) {
    for (size_t i = 0; i < w.size(); ++i) {
      double mean = 0;
      for (int64_t worker = 0; worker < problem.workers; ++worker) mean += problem.gradient(worker, step, i, w[i]) / 3;
      w[i] -= problem.lr(step) * mean;
    }
    const auto& found = seen.weights[static_cast<size_t>(step - 1)];
    for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(found[2][i], w[i], kRounding) << step;
  }
}

TEST(OuterLoop, MethodsMeetInTheirLimits) {
  Problem problem;
  const auto of = [&](const OuterOptions& options) { return on_ranks(options, problem); };
  const Seen local = of({.method = Outer::kLocalSgd, .every = 3});
  expect_same(of({.method = Outer::kSlowmo, .every = 3, .momentum = 0}), local, "slowmo without momentum");
  expect_same(of({.method = Outer::kDiloco, .every = 3, .momentum = 0, .lr = 1}), local, "diloco without momentum");
  expect_same(of({.method = Outer::kDiloco, .every = 3, .momentum = 0}),
              of({.method = Outer::kSlowmo, .every = 3, .momentum = 0, .lr = 0.7}), "short steps");
}

// Workers that see the same are one process, to the bit where the mean of equal numbers is exact.
TEST(OuterLoop, WorkersThatSeeTheSameAreOne) {
  Problem problem{.workers = 2, .alike = true};
  const Seen seen = on_ranks({.method = Outer::kLocalSgd, .every = 3}, problem);
  Vector w;
  for (size_t i = 0; i < problem.curvature.size(); ++i) w.push_back(problem.start(i));
  for (int64_t step = 1; step <= problem.steps; ++step) {
    for (size_t i = 0; i < w.size(); ++i) w[i] -= problem.lr(step) * problem.gradient(0, step, i, w[i]);
    const auto& found = seen.weights[static_cast<size_t>(step - 1)];
    EXPECT_EQ(found[0], found[1]);
    for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(found[0][i], w[i], kRounding);
  }
}

// At the end of every round all weights are the same bits, whatever came before.
TEST(OuterLoop, ReplicasAgreeToTheBitBehindEveryRound) {
  for (const Outer method : {Outer::kLocalSgd, Outer::kSlowmo, Outer::kDiloco, Outer::kCo2}) {
    Problem problem;
    const Seen seen = on_ranks({.method = method, .every = 2}, problem);
    for (size_t s = 1; s < seen.weights.size(); s += 2) {
      for (const Vector& own : seen.weights[s]) EXPECT_EQ(own, seen.weights[s][0]) << s;
      EXPECT_NE(seen.weights[s - 1][0], seen.weights[s - 1][1]) << "workers train apart";
    }
  }
}

TEST(OuterLoop, TheGuardMakesARoundSynchronousWhereWeightsMoveFurtherAndFurther) {
  Problem problem{.workers = 2, .steps = 60, .noise = 0, .lr = [](int64_t) { return 0.1; }, .alike = true, .curvature = {0.5, 0.4, 0.45}};
  OuterOptions options{.method = Outer::kCo2, .every = 2, .momentum = 0.9, .lr = 2, .clip = 0, .gap = OuterGap::kConstant};
  std::vector<OuterRound> guarded, free;
  const Seen with = on_ranks(options, problem, &guarded);
  options.guard = false;
  const Seen without = on_ranks(options, problem, &free);
  const auto acted = [](const OuterRound& round) { return round.synchronous.find("guard") != std::string::npos; };
  EXPECT_GT(std::ranges::count_if(guarded, acted), 0);
  EXPECT_EQ(std::ranges::count_if(free, acted), 0);
  double furthest_with = 0, furthest_without = 0;
  for (size_t s = 0; s < with.weights.size(); ++s) {
    furthest_with = std::max(furthest_with, std::abs(with.weights[s][0][0]));
    furthest_without = std::max(furthest_without, std::abs(without.weights[s][0][0]));
  }
  EXPECT_LT(furthest_with, furthest_without / 2);
}

TEST(OuterLoop, ARoundIsSynchronousWhereTheLearningRateHasFallen) {
  Problem problem{.steps = 12, .lr = [](int64_t step) { return step <= 6 ? 0.05 : 0.005; }};
  std::vector<OuterRound> rounds;
  on_ranks({.method = Outer::kCo2, .every = 2}, problem, &rounds);
  ASSERT_EQ(rounds.size(), 6u);
  EXPECT_THAT(rounds[3].synchronous, HasSubstr("learning rate"));
  EXPECT_EQ(rounds[2].synchronous, "");
  EXPECT_EQ(rounds[4].synchronous, "");
}

TEST(OuterLoop, AMeanThatIsNotFiniteEndsTheRun) {
  Problem problem{.lr = [](int64_t step) { return step == 4 ? 1e308 : 0.05; }};
  try {
    on_ranks({.method = Outer::kLocalSgd, .every = 2}, problem);
    ADD_FAILURE() << "nobody noticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kNumeric);
    EXPECT_THAT(error.what(), HasSubstr("not finite"));
  }
}

TEST(OuterLoop, TheNumberOfStepsFollowsFromTimes) {
  const OuterChoice hidden = choose_every(true, 0.5, 5.6, 0.01, 100000);
  EXPECT_EQ(hidden.every, 13);  // 1.15 · 5.6 / 0.5
  EXPECT_THAT(hidden.reason, HasSubstr("hidden"));
  EXPECT_EQ(choose_every(true, 0.5, 0.0, 0.05, 100000).every, 3);  // weights take a thirtieth
  EXPECT_EQ(choose_every(true, 0.5, 0.1, 0.0, 100000).every, 1);
  EXPECT_EQ(choose_every(false, 0.5, 0.5, 0.0, 100000).every, 20);
  const OuterChoice too_long = choose_every(true, 0.5, 5.6, 0.01, 10);
  EXPECT_EQ(too_long.every, 5);
  EXPECT_THAT(too_long.reason, HasSubstr("13 would be right"));
}

void keep_busy(double seconds) {
  const int64_t until = monotonic_ns() + static_cast<int64_t>(seconds * 1e9);
  while (monotonic_ns() < until) continue;
}

// A link on which an exchange takes 0.1 s. Two steps of 0.08 s hide it; one of no time does not, nor does a method that waits. A busy machine
// makes steps longer, and what is hidden stays so.
double waited_in_rounds(Outer method, int64_t every, double step_s) {
  constexpr double kExchange_s = 0.1;
  Problem problem{.workers = 2, .steps = 4 * every};
  double waited = 0;
  comm::run_ranks(2, [&](comm::Communicator& threads) {
    comm::Delayed world(comm::borrowed(threads), std::make_shared<comm::Link>(comm::LinkOptions{.latency_s = kExchange_s}));
    Worker worker(problem, {.method = method, .every = every, .gap = OuterGap::kConstant, .synchronous_start = false}, world);
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

TEST(OuterLoop, Co2HidesExchangesBehindSteps) {
  EXPECT_LT(waited_in_rounds(Outer::kCo2, 2, 0.08), 0.3);
  EXPECT_GT(waited_in_rounds(Outer::kCo2, 1, 0), 0.6);  // two of the three rounds have something to wait for
  EXPECT_GT(waited_in_rounds(Outer::kSlowmo, 2, 0.08), 1);
}

TEST(OuterLoop, ChoosesTheNumberOfStepsInItsFirstRound) {
  Problem problem{.workers = 2, .steps = 400};
  comm::run_ranks(2, [&](comm::Communicator& threads) {
    comm::Delayed world(comm::borrowed(threads), std::make_shared<comm::Link>(comm::LinkOptions{.latency_s = 0.02}));
    Worker worker(problem, {.method = Outer::kCo2}, world);
    std::optional<OuterRound> round;
    for (int64_t step = 1; !round; ++step) {
      ASSERT_LE(step, 5);
      round = worker.loop->after_step({.lr = 0.1, .loss = 1, .seconds = step == 1 ? 10.0 : 0.01, .left = problem.steps - step});
    }
    ASSERT_TRUE(round->choice);
    EXPECT_EQ(round->choice->step_s, 0.01);  // the first step does not count
    EXPECT_GE(round->choice->exchange_s, 0.02);
    EXPECT_GE(round->choice->every, 3);  // 1.15 · 0.02 / 0.01
    EXPECT_EQ(worker.loop->every(), round->choice->every);
  });
}

// Whoever waits for a worker that is gone is told; nobody hangs.
TEST(OuterLoop, ALostWorkerIsTold) {
  Problem problem;
  try {
    comm::run_ranks(problem.workers, [&](comm::Communicator& world) {
      Worker worker(problem, {.method = Outer::kCo2, .every = 3}, world);
      for (int64_t step = 1; step <= problem.steps; ++step) {
        if (world.rank() == 1 && step == 5) throw Error({.code = ExitCode::kData, .what = "the machine is gone"});
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
