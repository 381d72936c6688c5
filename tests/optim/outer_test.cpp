// ctest: label=full timeout=300
// Outer loops on ranks that are threads, beside a plain simulation written from the papers' equations
// (docs/sources/co2.md §2, §3, §8): every worker's weights behind every step. Known values and limits.
#include <gmock/gmock.h>

#include "outer_for_tests.h"

namespace longhaul::optim {
namespace {

using ::testing::HasSubstr;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

// ---- the reference: plain loops over all workers, one process

class Simulation {
 public:
  Simulation(const OuterOptions& options, const Problem& problem) : options_(options), problem_(problem) {
    for (size_t i = 0; i < problem.curvature.size(); ++i) x_.push_back(problem.start(i));
    m_.assign(x_.size(), 0);
    bounds_ = options.gap == OuterGap::kPerTensor ? std::vector<size_t>{0, 4, 7, x_.size()}
                                                  : std::vector<size_t>{0, x_.size()};
    w_.assign(static_cast<size_t>(problem.workers), x_);
  }

  Seen run() {
    Seen seen;
    int64_t k = 0, round = 0;
    Vector first_step;
    for (int64_t step = 1; step <= problem_.steps; ++step) {
      for (size_t worker = 0; worker < w_.size(); ++worker) {
        for (size_t i = 0; i < x_.size(); ++i)
          w_[worker][i] -=
              problem_.lr(step) * problem_.gradient(static_cast<int64_t>(worker), step, i, w_[worker][i]);
      }
      if (++k == 1) {
        first_step.assign(bounds_.size() - 1, 0);
        for (const Vector& own : w_) {
          for (size_t t = 0; t < first_step.size(); ++t)
            first_step[t] += distance_of(t, own, x_) / static_cast<double>(w_.size());
        }
      }
      if (k == options_.every || step == problem_.steps) {
        std::string why;
        if (options_.method == Outer::kCo2 && options_.overlap) {
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
  // Eight bits of the significand, to the nearest even.
  double on_wire(double x) const {
    if (options_.wire == recipe::OuterWire::kFloat32 || x == 0) return x;
    const double unit = std::ldexp(1.0, std::ilogb(x) - 7);
    return std::nearbyint(x / unit) * unit;
  }
  // Of the elements that have one gap together: all, or those of a tensor.
  double distance_of(size_t t, const Vector& a, const Vector& b) const {
    const auto from = static_cast<std::ptrdiff_t>(bounds_[t]),
               to = static_cast<std::ptrdiff_t>(bounds_[t + 1]);
    return distance({a.begin() + from, a.begin() + to}, {b.begin() + from, b.begin() + to});
  }
  void end_round(double lr, int64_t k, const Vector& first_step, bool synchronous, double& gap) {
    Vector delta(x_.size());
    for (size_t i = 0; i < x_.size(); ++i) {
      double sum = 0;
      for (const Vector& own : w_) sum += on_wire(x_[i] - own[i]);
      delta[i] = on_wire(sum) / static_cast<double>(w_.size());
    }
    const double alpha = recipe::outer_lr_of(options_), beta = recipe::outer_momentum_of(options_),
                 gamma = options_.by_lr ? lr : 1;
    if (synchronous || options_.method == Outer::kLocalSgd) {
      for (size_t i = 0; i < x_.size(); ++i) x_[i] -= (synchronous ? 1 : alpha) * delta[i], m_[i] = 0;
      late_.reset();
    } else if (options_.method != Outer::kCo2 || !options_.overlap) {
      const bool co2 = options_.method == Outer::kCo2;
      if (co2 && options_.gap == OuterGap::kConstant) gap = options_.gap_value;
      for (size_t i = 0; i < x_.size(); ++i) {
        m_[i] = beta * m_[i] + delta[i] / gap / gamma;
        if (co2 && options_.clip > 0) m_[i] = std::max(-options_.clip, std::min(options_.clip, m_[i]));
        x_[i] -=
            alpha * gamma * (options_.method == Outer::kDiloco ? delta[i] / gamma + beta * m_[i] : m_[i]);
      }
    } else {
      const Vector before = x_;
      if (late_) {
        gap = 0;
        for (size_t t = 0; t + 1 < bounds_.size(); ++t) {
          const double of_t =
              options_.gap == OuterGap::kConstant
                  ? options_.gap_value
                  : 1 + moved_[t] / (static_cast<double>(late_->steps) * late_->first_step[t]);
          gap += of_t / static_cast<double>(bounds_.size() - 1);
          for (size_t i = bounds_[t]; i < bounds_[t + 1]; ++i) {
            m_[i] = beta * m_[i] + late_->delta[i] / of_t / late_->gamma;
            if (options_.clip > 0) m_[i] = std::max(-options_.clip, std::min(options_.clip, m_[i]));
            x_[i] -= alpha * gamma * m_[i];
          }
        }
      }
      moved_.clear();
      for (size_t t = 0; t + 1 < bounds_.size(); ++t) moved_.push_back(distance_of(t, x_, before));
      late_ = Late{delta, first_step, k, gamma};
    }
  }

  struct Late {
    Vector delta, first_step;
    int64_t steps = 0;
    double gamma = 1;  // learning rate of its round
  };
  OuterOptions options_;
  Problem problem_;
  Vector x_, m_;
  std::vector<Vector> w_;
  std::optional<Late> late_;
  Vector moved_;
  std::vector<size_t> bounds_;
};

TEST(OuterLoop, EveryMethodIsItsEquations) {
  const std::vector<std::pair<const char*, OuterOptions>> all = {
      {"local_sgd", {.method = Outer::kLocalSgd, .every = 3}},
      {"slowmo", {.method = Outer::kSlowmo, .every = 3}},
      {"slowmo by lr", {.method = Outer::kSlowmo, .every = 2, .momentum = 0.7, .lr = 0.9, .by_lr = true}},
      {"diloco", {.method = Outer::kDiloco, .every = 4}},
      {"diloco in bf16", {.method = Outer::kDiloco, .every = 4, .wire = recipe::OuterWire::kBfloat16}},
      {"co2 in bf16", {.method = Outer::kCo2, .every = 3, .wire = recipe::OuterWire::kBfloat16}},
      {"co2", {.method = Outer::kCo2, .every = 3}},
      {"co2 without momentum",
       {.method = Outer::kCo2, .every = 2, .momentum = 0, .synchronous_start = false}},
      {"co2 without penalty",
       {.method = Outer::kCo2, .every = 3, .gap = OuterGap::kConstant, .guard = false}},
      {"co2 half",
       {.method = Outer::kCo2,
        .every = 1,
        .lr = 0.7,
        .gap = OuterGap::kConstant,
        .gap_value = 2,
        .synchronous_start = false}},
      {"co2 clipped", {.method = Outer::kCo2, .every = 3, .clip = 0.02, .synchronous_start = false}},
      {"co2, a gap for each tensor",
       {.method = Outer::kCo2, .every = 3, .gap = OuterGap::kPerTensor, .synchronous_start = false}},
      {"co2, a gap for each tensor, bf16",
       {.method = Outer::kCo2,
        .every = 2,
        .gap = OuterGap::kPerTensor,
        .wire = recipe::OuterWire::kBfloat16}},
      {"co2 without overlap", {.method = Outer::kCo2, .every = 3, .clip = 0.02, .overlap = false}},
      {"co2 without overlap, a fixed gap",
       {.method = Outer::kCo2, .every = 3, .gap = OuterGap::kConstant, .gap_value = 2, .overlap = false}},
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

// Momenta in units of a learning rate of 0 would be anything. As it falls to 0 what is left is the round's
// own difference, times the outer rate.
TEST(OuterLoop, ARateOfZeroLeavesNothingOfAMomentumOfItsUnits) {
  for (const Outer method : {Outer::kSlowmo, Outer::kDiloco}) {
    for (const int64_t zero_from : {10, 12}) {  // all of the last round, or its last step alone
      Problem problem{.steps = 12};
      problem.lr = [&](int64_t step) { return step < zero_from ? 0.05 : 0.0; };
      const Seen seen =
          on_ranks({.method = method, .every = 3, .momentum = 0.7, .lr = 0.9, .by_lr = true}, problem);
      const Vector& before = seen.weights[8][0];
      for (size_t i = 0; i < before.size(); ++i) {
        double mean = 0;
        for (const Vector& own : seen.weights[10]) mean += own[i] / 3;
        EXPECT_NEAR(seen.weights[11][0][i], before[i] - 0.9 * (before[i] - mean), 1e-12)
            << zero_from << " " << i;
      }
    }
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
  // the mean of 1, 2 and 3
  for (size_t r = 1; r < rounds.size(); ++r) EXPECT_NEAR(rounds[r].loss, 2.0, 1e-12);
}

// docs/sources/co2.md §12; one element, curvature 1.
TEST(OuterLoop, KnownValuesOfCo2) {
  Problem problem{.workers = 2,
                  .steps = 43,
                  .noise = 0,
                  .lr = [](int64_t) { return 0.1; },
                  .alike = true,
                  .curvature = {1}};
  const OuterOptions options{.method = Outer::kCo2,
                             .every = 6,
                             .momentum = 0.2,
                             .clip = 0,
                             .gap = OuterGap::kConstant,
                             .guard = false,
                             .synchronous_start = false};
  // The problem's own minimum is 0.3 sin(0) = 0, and it starts at 1.
  std::vector<OuterRound> rounds;
  const Seen seen = on_ranks(options, problem, &rounds);
  const Vector anchors = {1, 0.531441, -0.030830, -0.392295, -0.450143, -0.277899, -0.032532};
  for (size_t t = 0; t < anchors.size(); ++t) {
    const double found = seen.weights[6 * (t + 1) - 1][0][0];  // behind round t all are at x of round t + 1
    EXPECT_NEAR(found, anchors[t], 6e-7) << t;                 // the table has six digits
  }
  // α δ / Λ over 1 - β, where the outer gradient has kept its sign: between rounds 1 and 2, and 5 and 6;
  // where it turned, less.
  const double strain = (1 - std::pow(0.9, 6)) / 0.8;
  EXPECT_EQ(rounds[2].strain, std::nullopt) << "the anchor had not moved";
  ASSERT_TRUE(rounds[3].strain && rounds[4].strain && rounds[6].strain);
  EXPECT_NEAR(*rounds[3].strain, strain, 1e-9);
  EXPECT_LT(*rounds[4].strain, strain);
  EXPECT_NEAR(*rounds[6].strain, strain, 1e-9);
}

// The gap divides what has come, and so what can be borne: half the strain where it is two, of the same share
// of an error that a round takes away.
TEST(OuterLoop, TheStrainIsThatBehindTheGap) {
  const Problem problem{.workers = 2,
                        .steps = 43,
                        .noise = 0,
                        .lr = [](int64_t) { return 0.1; },
                        .alike = true,
                        .curvature = {1}};
  for (const double gap : {1.0, 2.0}) {
    std::vector<OuterRound> rounds;
    on_ranks({.method = Outer::kCo2,
              .every = 6,
              .momentum = 0.2,
              .clip = 0,
              .gap = OuterGap::kConstant,
              .gap_value = gap,
              .guard = false,
              .synchronous_start = false},
             problem, &rounds);
    ASSERT_TRUE(rounds[3].strain) << gap;
    EXPECT_NEAR(*rounds[3].strain, (1 - std::pow(0.9, 6)) / gap / 0.8, 1e-9) << gap;
  }
}

// Where nothing is hidden or damped, x_{t+1} = (1 + β) x_t - (β + α δ) x_{t-1}... of which the product of the
// roots, β + α δ / Λ, is what x_t² - x_{t+1} x_{t-1} grows by from round to round, and its root the spectral
// radius where roots are complex.
TEST(OuterLoop, SpectralRadiiOfTheStabilityTable) {
  struct Row {
    double beta, delta, radius;
  };
  for (const Row& row : {Row{0, 0.05, 0.947}, Row{0, 0.5, 0.707}, Row{0, 0.95, 0.975}, Row{0.2, 0.05, 0.932},
                         Row{0.2, 0.5, 0.837}, Row{0.2, 0.95, 1.072}, Row{0.5, 0.05, 0.862},
                         Row{0.5, 0.5, 1.000}, Row{0.5, 0.95, 1.204}}) {
    // One step of curvature 1 and lr δ takes δ of the error away.
    Problem problem{.workers = 2,
                    .steps = 16,
                    .noise = 0,
                    .lr = [&](int64_t) { return row.delta; },
                    .alike = true,
                    .curvature = {1}};
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

// docs/sources/co2.md §3. Of the measured gap: never below 1; 1 where the anchor rested; the same number when
// weights, and so steps, are in another unit.
TEST(OuterLoop, TheGapIsAtLeastOneAndHasNoUnit) {
  const OuterOptions options{.method = Outer::kCo2,
                             .every = 3,
                             .momentum = 0.2,
                             .clip = 0,
                             .guard = false,
                             .synchronous_start = false};
  Problem problem{.workers = 3, .steps = 18};
  const Seen seen = on_ranks(options, problem);
  for (const double gap : seen.gaps) EXPECT_GE(gap, 1);
  ASSERT_GE(seen.gaps.size(), 4u);
  EXPECT_EQ(seen.gaps[0], 1) << "nothing has arrived";
  EXPECT_EQ(seen.gaps[1], 1) << "the anchor had not moved";
  EXPECT_GT(seen.gaps[2], 1.05) << "and then it had";
  // a power of two: every number of the run is that times the other run's, rounded alike
  problem.unit = 1024;
  EXPECT_EQ(on_ranks(options, problem).gaps, seen.gaps);
}

TEST(OuterLoop, RoundsOfOneStepWithoutMomentumAreSynchronousSgd) {
  Problem problem;
  const Seen seen = on_ranks({.method = Outer::kLocalSgd, .every = 1}, problem);
  Vector w;
  for (size_t i = 0; i < problem.curvature.size(); ++i) w.push_back(problem.start(i));
  for (int64_t step = 1; step <= problem.steps; ++step) {
    for (size_t i = 0; i < w.size(); ++i) {
      double mean = 0;
      for (int64_t worker = 0; worker < problem.workers; ++worker)
        mean += problem.gradient(worker, step, i, w[i]) / 3;
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
  expect_same(of({.method = Outer::kDiloco, .every = 3, .momentum = 0, .lr = 1}), local,
              "diloco without momentum");
  expect_same(of({.method = Outer::kDiloco, .every = 3, .momentum = 0}),
              of({.method = Outer::kSlowmo, .every = 3, .momentum = 0, .lr = 0.7}), "short steps");
}

// docs/sources/co2.md §8, §12. What is not late needs no gap: to the bit slowmo, and with neither momentum
// nor clip the workers' mean.
TEST(OuterLoop, Co2WithoutDelayIsSlowmo) {
  Problem problem;
  for (const bool by_lr : {false, true}) {
    for (const double momentum : {0.0, 0.2, 0.7}) {
      for (const OuterGap gap : {OuterGap::kConstant, OuterGap::kMeasured, OuterGap::kPerTensor}) {
        const OuterOptions co2{.method = Outer::kCo2,
                               .every = 3,
                               .momentum = momentum,
                               .lr = 0.9,
                               .by_lr = by_lr,
                               .clip = 0,
                               .gap = gap,
                               .overlap = false};
        std::vector<OuterRound> rounds;
        const Seen found = on_ranks(co2, problem, &rounds);
        const Seen slowmo = on_ranks(
            {.method = Outer::kSlowmo, .every = 3, .momentum = momentum, .lr = 0.9, .by_lr = by_lr}, problem);
        EXPECT_EQ(found.weights, slowmo.weights) << momentum << " " << static_cast<int>(gap);
        EXPECT_EQ(found.gaps, slowmo.gaps);
        for (const OuterRound& round : rounds) EXPECT_EQ(round.applied, round.round) << "nothing is late";
      }
    }
  }
  expect_same(
      on_ranks({.method = Outer::kCo2, .every = 3, .momentum = 0, .clip = 0, .overlap = false}, problem),
      on_ranks({.method = Outer::kLocalSgd, .every = 3}, problem), "neither momentum nor clip");
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

}  // namespace
}  // namespace longhaul::optim
