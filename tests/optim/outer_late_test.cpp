// ctest: label=full timeout=300
// Outer loops that keep what is learnt while an exchange is on its way, beside plain loops over all workers,
// fp64, written from the publications: delay-corrected merging (LOSCAR-SGD, arXiv 2605.20866: w = z + mean(y)
// - y) and streaming fragments (Streaming DiLoCo, arXiv 2501.18512: Nesterov's outer step from the anchor,
//   then a mixture of both). Where one worker would be, all see the same.
#include <gmock/gmock.h>

#include "outer_for_tests.h"

namespace longhaul::optim {
namespace {

using ::testing::HasSubstr;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

void local_steps(const Problem& problem, int64_t step, std::vector<Vector>& workers) {
  for (size_t worker = 0; worker < workers.size(); ++worker) {
    for (size_t i = 0; i < workers[worker].size(); ++i)
      workers[worker][i] -=
          problem.lr(step) * problem.gradient(static_cast<int64_t>(worker), step, i, workers[worker][i]);
  }
}

Vector mean_of(const std::vector<Vector>& workers) {
  Vector mean(workers.front().size(), 0);
  for (const Vector& own : workers) {
    for (size_t i = 0; i < own.size(); ++i) mean[i] += own[i] / static_cast<double>(workers.size());
  }
  return mean;
}

std::vector<Vector> at_the_start(const Problem& problem) {
  Vector w;
  for (size_t i = 0; i < problem.curvature.size(); ++i) w.push_back(problem.start(i));
  return std::vector<Vector>(static_cast<size_t>(problem.workers), w);
}

// Behind every τ-th step all send y, behind `delay` further ones each takes what the others have more than it
// had. by_lr: of what the anchor is to move by only the share that the learning rate has kept since y was
// sent.
std::vector<std::vector<Vector>> loscar(const Problem& problem, int64_t every, int64_t delay,
                                        bool by_lr = false) {
  std::vector<std::vector<Vector>> seen;
  std::vector<Vector> w = at_the_start(problem), y;
  Vector anchor = w.front();
  double rate_then = 1;
  for (int64_t step = 1; step <= problem.steps; ++step) {
    local_steps(problem, step, w);
    const bool last = step == problem.steps;
    if (!y.empty() && step % every == delay % every && !last) {
      const Vector mean = mean_of(y);
      const double kept = by_lr ? problem.lr(step) / rate_then : 1;
      for (size_t i = 0; i < mean.size(); ++i) {
        const double movement = kept * (anchor[i] - mean[i]);
        for (size_t worker = 0; worker < w.size(); ++worker)
          w[worker][i] += anchor[i] - y[worker][i] - movement;
        anchor[i] -= movement;
      }
      y.clear();
    }
    if (step % every == 0) y = w, rate_then = problem.lr(step);
    if (last) {
      const Vector mean = mean_of(w);
      for (Vector& own : w) own = mean;
    }
    seen.push_back(w);
  }
  return seen;
}

// Elements of the problem's three layers: layer l belongs to fragment l mod their number.
int64_t fragment_of_element(size_t i, int64_t fragments) { return (i < 4 ? 0 : i < 7 ? 1 : 2) % fragments; }

std::vector<std::vector<Vector>> streaming(const Problem& problem, const OuterOptions& options,
                                           double momentum, double lr) {
  const int64_t apart = options.every / options.fragments, delay = options.delay > 0 ? options.delay : apart;
  std::vector<std::vector<Vector>> seen;
  std::vector<Vector> w = at_the_start(problem);
  Vector anchor = w.front(), b(anchor.size(), 0), pseudo_gradient;
  const auto rate = [&](int64_t at) { return options.by_lr ? problem.lr(at) : 1; };
  int64_t under_way = -1, sent_at = 0;
  for (int64_t step = 1; step <= problem.steps; ++step) {
    local_steps(problem, step, w);
    const bool last = step == problem.steps;
    if (under_way >= 0 && step == sent_at + delay && !last) {
      for (size_t i = 0; i < anchor.size(); ++i) {
        if (fragment_of_element(i, options.fragments) != under_way) continue;
        const double of_rate = pseudo_gradient[i] / rate(sent_at);
        b[i] = momentum * b[i] + of_rate;
        anchor[i] -= lr * rate(step) * (of_rate + momentum * b[i]);
        for (Vector& own : w) own[i] = (1 - options.mix) * anchor[i] + options.mix * own[i];
      }
      under_way = -1;
    }
    const Vector mean = mean_of(w);
    if (step % apart == 0 && !last) {
      under_way = (step / apart - 1) % options.fragments, sent_at = step;
      pseudo_gradient.clear();
      for (size_t i = 0; i < mean.size(); ++i) pseudo_gradient.push_back(anchor[i] - mean[i]);
    }
    if (last) {
      for (Vector& own : w) own = mean;
    }
    seen.push_back(w);
  }
  return seen;
}

void expect_weights(const Seen& found, const std::vector<std::vector<Vector>>& expected,
                    const std::string& what) {
  ASSERT_EQ(found.weights.size(), expected.size()) << what;
  for (size_t s = 0; s < expected.size(); ++s) {
    for (size_t w = 0; w < expected[s].size(); ++w) {
      for (size_t i = 0; i < expected[s][w].size(); ++i)
        EXPECT_NEAR(found.weights[s][w][i], expected[s][w][i], kRounding)
            << what << ": step " << s + 1 << " worker " << w << " element " << i;
    }
  }
}

TEST(OuterLate, DelayCorrectedIsItsEquation) {
  for (const int64_t workers : {2, 3, 4}) {
    for (const int64_t delay : {0, 1, 2, 3}) {
      Problem problem{.workers = workers, .steps = 17};
      problem.lr = [](int64_t step) { return 0.05 - 0.001 * static_cast<double>(step); };
      const OuterOptions options{.method = Outer::kDelayCorrected, .every = 3, .delay = delay};
      expect_weights(on_ranks(options, problem), loscar(problem, 3, delay == 0 ? 3 : delay),
                     "delay " + std::to_string(delay));
      const OuterOptions by_lr{.method = Outer::kDelayCorrected, .every = 3, .by_lr = true, .delay = delay};
      expect_weights(on_ranks(by_lr, problem), loscar(problem, 3, delay == 0 ? 3 : delay, true),
                     "by lr, delay " + std::to_string(delay));
    }
  }
}

TEST(OuterLate, StreamingIsItsEquations) {
  struct Row {
    OuterOptions options;
    double momentum, lr;
  };
  const std::vector<Row> rows = {
      {{.method = Outer::kStreaming, .every = 6, .fragments = 3}, 0.9, 0.7},
      {{.method = Outer::kStreaming, .every = 6, .delay = 1, .fragments = 2, .mix = 0}, 0.9, 0.7},
      {{.method = Outer::kStreaming,
        .every = 4,
        .momentum = 0.5,
        .lr = 0.9,
        .delay = 3,
        .fragments = 1,
        .mix = 0.25},
       0.5,
       0.9},
      {{.method = Outer::kStreaming, .every = 6, .by_lr = true, .delay = 1, .fragments = 2, .mix = 0},
       0.9,
       0.7},
      {{.method = Outer::kStreaming,
        .every = 6,
        .momentum = 0,
        .lr = 1,
        .delay = 2,
        .fragments = 3,
        .mix = 1},
       0,
       1}};
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const int64_t workers : {2, 3, 4}) {
      Problem problem{.workers = workers, .steps = 23};
      if (rows[r].options.by_lr)
        problem.lr = [](int64_t step) { return 0.05 - 0.002 * static_cast<double>(step); };
      expect_weights(on_ranks(rows[r].options, problem),
                     streaming(problem, rows[r].options, rows[r].momentum, rows[r].lr),
                     "row " + std::to_string(r));
    }
  }
}

// A worker that has nothing to learn from others is plain training, whatever is on its way.
TEST(OuterLate, DelayCorrectedWorkersThatSeeTheSameTrainAsOne) {
  const Problem problem{.workers = 4, .steps = 17, .alike = true};
  const Seen seen = on_ranks({.method = Outer::kDelayCorrected, .every = 4, .delay = 2}, problem);
  std::vector<Vector> alone = {at_the_start(problem).front()};
  for (int64_t step = 1; step <= problem.steps; ++step) {
    local_steps(problem, step, alone);
    for (const Vector& own : seen.weights[static_cast<size_t>(step - 1)]) {
      for (size_t i = 0; i < own.size(); ++i) EXPECT_NEAR(own[i], alone[0][i], kRounding) << step;
    }
  }
}

TEST(OuterLate, AllHaveTheSameBitsBehindTheLastRound) {
  for (const Outer method : {Outer::kDelayCorrected, Outer::kStreaming}) {
    for (const int64_t steps : {12, 13}) {  // with a round's end, and without
      const Seen seen =
          on_ranks({.method = method, .every = 4, .delay = 1, .fragments = 2}, {.steps = steps});
      EXPECT_NE(seen.weights[7][0], seen.weights[7][1]) << "workers keep their own";
      for (const Vector& own : seen.weights.back()) EXPECT_EQ(own, seen.weights.back()[0]);
    }
  }
}

TEST(OuterLate, TellsWhereWeightsTakeWhatHasCome) {
  const Problem problem{.steps = 13};
  std::vector<OuterRound> rounds;
  on_ranks({.method = Outer::kStreaming, .every = 6, .delay = 2, .fragments = 2}, problem, &rounds);
  ASSERT_EQ(rounds.size(), 4u);  // behind steps 5, 8, 11 and 13
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(rounds[r].applied, static_cast<int64_t>(r));
    EXPECT_EQ(rounds[r].fragment, static_cast<int64_t>(r % 2));
    EXPECT_EQ(rounds[r].steps, 3);
    EXPECT_NEAR(rounds[r].loss, 2.0, 1e-12);
    EXPECT_GT(rounds[r].movement, 0);
  }
  EXPECT_THAT(rounds[3].synchronous, HasSubstr("last"));
  EXPECT_EQ(rounds[3].fragment, std::nullopt);
  rounds.clear();
  on_ranks({.method = Outer::kDelayCorrected, .every = 3}, problem, &rounds);
  ASSERT_EQ(rounds.size(), 5u);  // as CO2's
  EXPECT_EQ(rounds[0].applied, std::nullopt);
  EXPECT_EQ(rounds[1].applied, 0);
}

// docs/sources/co2.md §5: where CO2 oscillates a delay-corrected merge stays with local SGD: five curvatures,
// noise, rounds of 8.
TEST(OuterLate, DelayCorrectedIsCalmWhereCo2IsNot) {
  Problem problem{.workers = 4, .steps = 480, .noise = 0.01};
  const auto furthest = [&](const OuterOptions& options) {
    const Seen seen = on_ranks(options, problem);
    // before the mean of the end
    const Vector& last = seen.weights[static_cast<size_t>(problem.steps) - 2][0];
    double most = 0;
    for (const double w : last) most = std::max(most, std::abs(w));
    return most;
  };
  const double co2 = furthest({.method = Outer::kCo2,
                               .every = 8,
                               .momentum = 0.5,
                               .clip = 0,
                               .gap = OuterGap::kConstant,
                               .guard = false});
  EXPECT_GT(co2, 100);
  EXPECT_LT(furthest({.method = Outer::kDelayCorrected, .every = 8}), 2);
}

}  // namespace
}  // namespace longhaul::optim
