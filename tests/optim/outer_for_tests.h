// A small problem for outer loops, trained by ranks that are threads, each a worker: what tests compare with
// plain loops over all workers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "comm/threads/run_ranks.h"
#include "optim/optimizer.h"
#include "optim/outer/outer.h"
#include "parameters_for_tests.h"

namespace longhaul::optim::testing {

using recipe::Outer;
using recipe::OuterGap;
using recipe::OuterOptions;
using Vector = std::vector<double>;

// Each worker pulls towards a point of its own, with some noise; elements have curvatures from stiff to flat.
struct Problem {
  int64_t workers = 3, steps = 13;
  double noise = 0.1;
  std::function<double(int64_t step)> lr = [](int64_t) { return 0.05; };
  bool alike = false;  // all workers see the same
  Vector curvature = {8, 3, 1, 0.3, 0.05, 5, 2, 0.7, 0.1, 1.5};
  double unit = 1;  // of weights

  double start(size_t i) const { return unit * (1 + 0.1 * static_cast<double>(i)); }
  double gradient(int64_t worker, int64_t step, size_t i, double w) const {
    const auto k = static_cast<double>(i), who = alike ? 0 : static_cast<double>(worker),
               when = static_cast<double>(step);
    return curvature[i] * (w - unit * 0.3 * std::sin(who + k)) +
           unit * noise * std::sin(1.7 * who + 2.3 * when + 0.9 * k);
  }
};

struct Seen {
  std::vector<std::vector<Vector>> weights;  // by step, by worker
  Vector gaps;                               // by round
  std::vector<std::string> synchronous;
};

inline double distance(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// ---- the same by ranks that are threads, each a worker

inline recipe::OptimOptions plain_sgd() {
  recipe::OptimOptions options;
  options.name = "sgd";
  options.momentum = 0;
  options.weight_decay = 0;
  return options;
}

// Each a layer: of ten elements four, three and three.
inline std::vector<layout::ParameterSpec> problem_specs(size_t elements) {
  std::vector<layout::ParameterSpec> specs;
  const auto add = [&](const char* name, layout::Shape shape) {
    specs.push_back(spec(name, std::move(shape), false));
    specs.back().layer = static_cast<int64_t>(specs.size()) - 1;
  };
  if (elements >= 8) {
    add("matrix", {2, 2});
    add("middle", {3});
    elements -= 7;
  }
  add("vector", {static_cast<int64_t>(elements)});
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
    for_each([&](size_t i, double& value, double& gradient) {
      gradient = problem.gradient(ranks.worker(), step, i, value);
    });
    optimizer->step({.lr = problem.lr(step)});
    return loop->after_step({.lr = problem.lr(step),
                             .loss = 1.0 + static_cast<double>(ranks.worker()),
                             .left = problem.steps - step});
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

inline Seen on_ranks(const OuterOptions& options, const Problem& problem,
                     std::vector<OuterRound>* rounds = nullptr) {
  Seen seen;
  seen.weights.assign(static_cast<size_t>(problem.steps),
                      std::vector<Vector>(static_cast<size_t>(problem.workers)));
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

// Sums over three workers are taken in another order than means: some units of the last place, which rounds
// carry on.
constexpr double kRounding = 1e-12;

inline void expect_same(const Seen& found, const Seen& expected, const std::string& what) {
  ASSERT_EQ(found.weights.size(), expected.weights.size());
  for (size_t s = 0; s < found.weights.size(); ++s) {
    for (size_t w = 0; w < found.weights[s].size(); ++w) {
      for (size_t i = 0; i < found.weights[s][w].size(); ++i) {
        EXPECT_NEAR(found.weights[s][w][i], expected.weights[s][w][i],
                    kRounding * std::max(1.0, std::abs(expected.weights[s][w][i])))
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

}  // namespace longhaul::optim::testing
