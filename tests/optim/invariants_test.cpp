// What optimizers owe to their equations, whatever the numbers (docs/sources/optimizers.md §12), and
// gradients that are zero for long (§13).
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/newton_schulz/op.h"
#include "optim/optimizer.h"
#include "parameters_for_tests.h"
#include "recipe/optimizers/optimizers.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

// Gradients of steps 1, 2, …
using Gradients = std::function<Tensor(int64_t step)>;

class OneTensor {
 public:
  OneTensor(const recipe::OptimOptions& options, const Tensor& start, const char* dtype = "fp64")
      : set_({spec_of(start)}, Precision::named(dtype), at::kCPU) {
    set_.add_stacked("w", {"w"});
    set_.allocate();
    value_of(set_, "w").copy_(start);
    optimizer_ = make_optimizer(options, set_, Precision::named(dtype));
  }
  OneTensor& steps(int64_t count, const Gradients& gradients, double lr = 1e-2) {
    for (int64_t step = 1; step <= count; ++step) {
      grad_of(set_, "w").copy_(gradients(step));
      optimizer_->step({.lr = lr});
    }
    return *this;
  }
  Tensor value() const { return value_of(set_, "w"); }
  Tensor state(const std::string& kind) const {
    for (const StateTensor& each : optimizer_->state()) {
      if (each.kind == kind) return each.view;
    }
    ADD_FAILURE() << "no state " << kind;
    return {};
  }

 private:
  static layout::ParameterSpec spec_of(const Tensor& start) {
    layout::ParameterSpec made = spec("w", start.sizes().vec(), true);
    made.layer = 0;
    return made;
  }
  model::ParameterSet set_;
  std::unique_ptr<Optimizer> optimizer_;
};

recipe::OptimOptions named(std::string_view name) { return {.name = std::string(name), .eps = 1e-30}; }

Tensor gradient_of(int64_t step) { return random_tensor({7, 5}, 100 + static_cast<uint64_t>(step)); }

// Rows in another order, columns in another order, and (of what treats rows as it does columns) the
// transpose: the result is the same in that order.
TEST(Invariants, OrderOfRowsAndColumns) {
  const Tensor start = random_tensor({7, 5}, 1), rows = at::tensor({3, 0, 6, 1, 5, 2, 4}),
               columns = at::tensor({4, 2, 0, 1, 3});
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    const auto mixed = [&](const Tensor& x) { return x.index_select(0, rows).index_select(1, columns); };
    const Tensor plain = OneTensor(named(entry->name), start).steps(5, gradient_of).value().clone();
    const Tensor found = OneTensor(named(entry->name), mixed(start))
                             .steps(5, [&](int64_t step) { return mixed(gradient_of(step)); })
                             .value();
    EXPECT_LT(relative_error(found, mixed(plain)), 1e-11) << entry->name;
    const Tensor turned = OneTensor(named(entry->name), start.t().contiguous())
                              .steps(5, [&](int64_t step) { return gradient_of(step).t(); })
                              .value();
    EXPECT_LT(relative_error(turned.t(), plain), 1e-11) << entry->name;
  }
}

// A gradient a thousand times as large gives the same step, but of SGD.
TEST(Invariants, SizeOfTheGradient) {
  const Tensor start = random_tensor({7, 5}, 1);
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    const Tensor plain = OneTensor(named(entry->name), start).steps(5, gradient_of).value().clone();
    const Tensor found = OneTensor(named(entry->name), start)
                             .steps(5, [](int64_t step) { return gradient_of(step) * 1000; })
                             .value();
    if (entry->name == "sgd") {
      EXPECT_GT(relative_error(found, plain), 1) << "it follows the gradient's size";
    } else {
      EXPECT_LT(relative_error(found, plain), 1e-10) << entry->name;
    }
  }
}

// LAMB without clipping of its ratio: every step is lr times as long as the weights are.
TEST(Invariants, LambStepsInProportionToWeights) {
  OneTensor tensor(named("lamb"), random_tensor({7, 5}, 1));
  for (int64_t step = 1; step <= 5; ++step) {
    const Tensor before = tensor.value().clone();
    tensor.steps(
        1, [&](int64_t) { return gradient_of(step); }, 0.03);
    EXPECT_NEAR((tensor.value() - before).norm().item<double>(), 0.03 * before.norm().item<double>(), 1e-12);
  }
}

// Weights that begin as zeros have no length to follow: the ratio is 1, and the first step that of Adam, lr
// times the sign; the next ones are as short as the weights then are (docs/sources/optimizers.md §13).
TEST(Invariants, LambBeginsAtZerosWithAdamsStep) {
  recipe::OptimOptions options = named("lamb");
  options.weight_decay = 0.01;
  const Tensor signs = random_tensor({7, 5}, 3).sign();
  OneTensor tensor(options, at::zeros({7, 5}, at::kDouble));
  tensor.steps(
      1, [&](int64_t) { return signs * 0.37; }, 1e-3);
  EXPECT_LT(relative_error(tensor.value(), signs * -1e-3), 1e-12);
  const Tensor before = tensor.value().clone();
  tensor.steps(
      1, [&](int64_t) { return signs * 0.37; }, 1e-3);
  EXPECT_NEAR((tensor.value() - before).norm().item<double>(), 1e-3 * before.norm().item<double>(), 1e-15);
}

// The first step of a warm-up may have no learning rate at all (came-pytorch refuses it:
// docs/sources/optimizers.md §7). Nothing moves, and it is seen all the same: states are those of a run that
// stepped, and the next step is the second.
TEST(Invariants, ALearningRateOfZeroMovesNothingAndIsSeen) {
  const Tensor start = random_tensor({7, 5}, 1);
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    recipe::OptimOptions options = named(entry->name);
    options.weight_decay = 0;
    OneTensor still(options, start), stepping(options, start);
    still.steps(1, gradient_of, 0);
    EXPECT_TRUE(at::equal(still.value(), start)) << entry->name;
    const Tensor again = gradient_of(2);
    still.steps(1, [&](int64_t) { return again; });
    EXPECT_GT(relative_error(still.value(), start), 1e-4) << entry->name;
    EXPECT_TRUE(still.value().isfinite().all().item<bool>()) << entry->name;
    // whose steps are in proportion to the weights
    if (entry->name == "lamb" || entry->name == "adafactor") continue;
    stepping.steps(1, gradient_of);
    const Tensor from = stepping.value().clone();
    stepping.steps(1, [&](int64_t) { return again; });
    EXPECT_LT(relative_error(still.value() - start, stepping.value() - from), 1e-10) << entry->name;
  }
}

// SM3's bounds are never below the sums of squares that they stand for, of any element, and never above the
// largest of its row and column.
TEST(Invariants, Sm3BoundsSumsOfSquares) {
  OneTensor tensor(named("sm3"), random_tensor({7, 5}, 1));
  Tensor sums = at::zeros({7, 5}, at::kDouble);
  for (int64_t step = 1; step <= 6; ++step) {
    tensor.steps(1, [&](int64_t) { return gradient_of(step); });
    sums += gradient_of(step).square();
    const Tensor bound =
        at::minimum(tensor.state("row_bound").unsqueeze(1), tensor.state("column_bound").unsqueeze(0));
    EXPECT_TRUE((bound * (1 + 1e-14)).ge(sums).all().item<bool>()) << step;
  }
}

// Where all sizes are the same CAME's and Adafactor's direction is the sign, of size 1 whatever the size was;
// the first step of CAME is then (1 − β1) / (β1 √(1 − β3)) long, eleven learning rates with β3 = 0.9999
// (docs/sources/optimizers.md §1), and Adafactor's one.
TEST(Invariants, FirstStepsOfEqualGradients) {
  const Tensor signs = random_tensor({7, 5}, 3).sign(), zero = at::zeros({7, 5}, at::kDouble);
  for (const double beta3 : {0.9999, 0.995}) {
    recipe::OptimOptions came = named("came");
    came.beta3 = beta3, came.weight_decay = 0;
    const Tensor moved = OneTensor(came, zero)
                             .steps(
                                 1, [&](int64_t) { return signs * 0.37; }, 1e-3)
                             .value();
    EXPECT_LT(relative_error(moved, signs * (-1e-3 * 0.1 / (0.9 * std::sqrt(1 - beta3)))), 1e-9) << beta3;
  }
  recipe::OptimOptions adafactor = named("adafactor");
  adafactor.scale_by_weights = adafactor.relative_step = false, adafactor.weight_decay = 0;
  EXPECT_LT(relative_error(OneTensor(adafactor, zero)
                               .steps(
                                   1, [&](int64_t) { return signs * 0.37; }, 1e-3)
                               .value(),
                           signs * -1e-3),
            1e-12);
}

// The rest of the table of §1: the root mean square of CAME's steps on noise, [32, 32], which its residuals'
// start at 0 makes large.
TEST(Invariants, CamesStepsOnNoiseShrinkAsItsResidualsFill) {
  const auto sizes = [](double beta2, double beta3) {
    recipe::OptimOptions came = named("came");
    came.beta2 = beta2, came.beta3 = beta3, came.weight_decay = 0;
    OneTensor tensor(came, at::zeros({32, 32}, at::kDouble));
    std::map<int64_t, double> of_steps;
    for (int64_t step = 1; step <= 300; ++step) {
      const Tensor before = tensor.value().clone();
      tensor.steps(
          1,
          [&](int64_t) {
            return random_tensor({32, 32}, 1000 + static_cast<uint64_t>(step));
          },
          1);
      of_steps[step] = (tensor.value() - before).square().mean().sqrt().item<double>();
    }
    return of_steps;
  };
  for (const auto& [beta2, beta3, known] :
       {std::tuple(0.999, 0.9999, std::map<int64_t, double>{{1, 11.1}, {10, 7.4}, {100, 2.5}, {300, 1.5}}),
        std::tuple(0.95, 0.995,
                   std::map<int64_t, double>{{1, 1.57}, {10, 1.10}, {100, 0.39}, {300, 0.30}})}) {
    const std::map<int64_t, double> found = sizes(beta2, beta3);
    for (const auto& [step, size] : known)
      EXPECT_NEAR(found.at(step), size, 0.12 * size) << beta3 << ", step " << step;
  }
}

// Rows that no gradient ever reaches (words that do not occur), a matrix that has none for long (experts
// without tokens) and then some: numbers stay finite, rows without gradients move by their decay alone, and
// the first gradient after the pause is no larger a step than the clip allows.
TEST(Invariants, ZeroGradientsForLong) {
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    recipe::OptimOptions options = named(entry->name);
    options.eps = 1e-8, options.beta2 = 0.95, options.weight_decay = 0;
    const Tensor start = random_tensor({7, 5}, 1, at::kFloat);
    const auto some_rows = [](int64_t step) {
      Tensor g = random_tensor({7, 5}, 100 + static_cast<uint64_t>(step), at::kFloat) * 1e-3;
      g.narrow(0, 2, 3).zero_();
      return g;
    };
    OneTensor rows(options, start, "fp32");
    rows.steps(200, some_rows);
    EXPECT_TRUE(rows.value().isfinite().all().item<bool>()) << entry->name;
    if (entry->name != "muon") {  // whose O is of the whole matrix: rows of zeros stay zeros to rounding only
      EXPECT_TRUE(at::equal(rows.value().narrow(0, 2, 3), start.narrow(0, 2, 3))) << entry->name;
    }
    EXPECT_LT(relative_error(rows.value().narrow(0, 2, 3), start.narrow(0, 2, 3)), 1e-3) << entry->name;
    EXPECT_GT(relative_error(rows.value().narrow(0, 0, 2), start.narrow(0, 0, 2)), 1e-4)
        << entry->name << ": the others learn";

    OneTensor paused(options, start, "fp32");
    paused.steps(20, [](int64_t step) {
      return random_tensor({7, 5}, 100 + static_cast<uint64_t>(step), at::kFloat) * 1e-3;
    });
    paused.steps(400, [](int64_t) { return at::zeros({7, 5}, at::kFloat); });
    const Tensor before = paused.value().clone();
    paused.steps(1, [](int64_t) { return random_tensor({7, 5}, 999, at::kFloat) * 1e-3; });
    EXPECT_TRUE(paused.value().isfinite().all().item<bool>()) << entry->name;
    const double moved = (paused.value() - before).square().mean().sqrt().item<double>();
    EXPECT_LT(moved, 0.12) << entry->name << ": at most about eleven learning rates (CAME's start)";
  }
}

// Singular values from a hundredth of ‖G‖ up end in [0.682, 1.135], from two thousandths up in [0.682,
// 1.203].
TEST(Invariants, NewtonSchulzMapsSingularValuesToAboutOne) {
  const auto ends = [](double least) {
    const int64_t n = 24;
    const auto orthogonal = [&](uint64_t seed) {
      return std::get<0>(at::linalg_qr(random_tensor({n, n}, seed)));
    };
    Tensor values = at::linspace(std::log(least), std::log(0.2), n, at::kDouble).exp();
    values[n - 1] = (1 - values.narrow(0, 0, n - 1).square().sum()).sqrt();  // ‖G‖ is 1
    const Tensor found =
        at::linalg_svdvals(kernels::newton_schulz(at::matmul(orthogonal(1) * values, orthogonal(2).t()), 5));
    return std::pair(found.min().item<double>(), found.max().item<double>());
  };
  const auto [low, high] = ends(0.01);
  EXPECT_GE(low, 0.682 - 1e-3);
  EXPECT_LE(high, 1.135 + 1e-3);
  const auto [lower, higher] = ends(0.002);
  EXPECT_GE(lower, 0.682 - 1e-3);
  EXPECT_LE(higher, 1.203 + 1e-3);
}

}  // namespace
}  // namespace longhaul::optim
