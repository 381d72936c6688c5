// The phase form itself, by an optimizer of two phases whose result needs sums over all ranks: a trust ratio
// per logical matrix.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "optim/optimizer.h"
#include "parameters_for_tests.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

// w ← w − lr · ‖w‖/‖g‖ · g for every logical matrix; they are cut by rows over the tensor ranks.
class TrustRatio final : public Optimizer {
 public:
  explicit TrustRatio(model::ParameterSet& set)
      : Optimizer({set, Precision::named("fp64")}), matrices_(shards()) {
    for (size_t i = 0; i < matrices_.size(); ++i) places_.push_back(norms_.reserve({layout::Axis::kTp}, 2));
    add_phase({"norms", &norms_, [this](const StepSettings&) {
                 for (size_t i = 0; i < matrices_.size(); ++i) {
                   norms_[places_[i]][0] += matrices_[i].master.square().sum();
                   norms_[places_[i]][1] += matrices_[i].gradient.square().sum();
                 }
               }});
    add_phase({"update", nullptr, [this](const StepSettings& settings) {
                 for (size_t i = 0; i < matrices_.size(); ++i) {
                   const Tensor squares = norms_[places_[i]];
                   matrices_[i].master.sub_(matrices_[i].gradient * (squares[0] / squares[1]).sqrt() *
                                            settings.lr);
                 }
               }});
  }
  std::vector<StateTensor> state() override {
    std::vector<StateTensor> result;
    append_masters(result);
    return result;
  }

 private:
  std::vector<Shard> matrices_;
  std::vector<Partials::Place> places_;
  Partials norms_;
};

std::vector<layout::ParameterSpec> two_matrices(int64_t rows) {
  return {spec("a", {rows, 3}, true), spec("b", {rows, 2}, true)};
}

TEST(Phases, RowsCutOverTwoRanksEqualTheWhole) {
  const Tensor a = random_tensor({6, 3}, 1), b = random_tensor({6, 2}, 2), grad_a = random_tensor({6, 3}, 3),
               grad_b = random_tensor({6, 2}, 4);
  const auto make = [&](int64_t from, int64_t rows) {
    model::ParameterSet set(two_matrices(rows), Precision::named("fp64"), at::kCPU);
    for (const char* name : {"a", "b"}) set.add_stacked(name, {name});
    set.allocate();
    value_of(set, "a").copy_(a.narrow(0, from, rows));
    value_of(set, "b").copy_(b.narrow(0, from, rows));
    grad_of(set, "a").copy_(grad_a.narrow(0, from, rows));
    grad_of(set, "b").copy_(grad_b.narrow(0, from, rows));
    return set;
  };
  model::ParameterSet whole = make(0, 6), upper = make(0, 2), lower = make(2, 4);
  const StepSettings settings{.lr = 0.1};
  TrustRatio(whole).step(settings);
  EXPECT_LT(relative_error(value_of(whole, "a"), a - grad_a * (a.norm() / grad_a.norm()) * 0.1), 1e-14);

  // The reduction of one rank runs the other rank's step up to its own reduction: what a group of two does,
  // in one thread.
  TrustRatio upper_rank(upper), lower_rank(lower);
  int reductions = 0;
  upper_rank.step(settings, [&](layout::AxisSet, const Tensor& upper_partials, comm::Reduction) {
    ++reductions;
    lower_rank.step(settings, [&](layout::AxisSet, const Tensor& lower_partials, comm::Reduction) {
      ++reductions;
      lower_partials.add_(upper_partials);
      upper_partials.copy_(lower_partials);
    });
  });
  EXPECT_EQ(reductions, 2) << "one fused reduction a phase and rank, none after the last phase";
  for (const char* name : {"a", "b"}) {
    EXPECT_LT(relative_error(at::cat({value_of(upper, name), value_of(lower, name)}), value_of(whole, name)),
              1e-14)
        << name;
  }
}

TEST(Phases, StepsAndVersionsCount) {
  model::ParameterSet set(two_matrices(2), Precision::named("fp64"), at::kCPU);
  for (const char* name : {"a", "b"}) set.add_stacked(name, {name});
  set.allocate();
  fill_values(set);
  fill_gradients(set, 1);
  TrustRatio optimizer(set);
  optimizer.step({.lr = 0.1});
  optimizer.step({.lr = 0.1});
  EXPECT_EQ(optimizer.steps(), 2);
  EXPECT_EQ(set.all()[1]->version, 2U);
  EXPECT_THROW(set.all()[1]->packed.expect_newest(1), Error) << "a backward pass of the version before";
  optimizer.set_steps(40);
  EXPECT_EQ(optimizer.steps(), 40);
}

}  // namespace
}  // namespace longhaul::optim
