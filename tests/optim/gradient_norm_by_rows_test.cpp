// The norm by rows: that of plain loops, and the same bits however ranks share the gradients.
#include "optim/gradient_norm_by_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>

#include "base/random.h"
#include "comm/threads/run_ranks.h"
#include "parallel/ranks.h"

namespace longhaul::optim {
namespace {

constexpr int64_t kRows = 37, kColumns = 24, kVector = 11;

layout::ParameterSpec matrix_or_vector(const std::string& name, layout::Shape shape) {
  layout::ParameterSpec spec;
  spec.tensor = {name, std::move(shape), layout::Role::kChannelUp};
  spec.layer = 0;
  return spec;
}

double element_of(const std::string& name, int64_t element) {
  return static_cast<float>(RandomStream(3, name).uniform(static_cast<uint64_t>(element)) - 0.5);
}

// Of gradients that are whole on every rank, or each rank's share of them.
GradientNorm norm_on(int64_t world, int64_t zero, double spoilt = 0) {
  GradientNorm first;
  std::mutex mutex;
  comm::run_ranks(world, [&](comm::Communicator& communicator) {
    parallel::Ranks ranks(communicator, {.mesh = {world, {}}, .zero = zero, .elastic = true});
    model::ParameterSet set(
        {matrix_or_vector("matrix", {kRows, kColumns}), matrix_or_vector("vector", {kVector})},
        Precision::named("fp32"), at::kCPU, model::Use::kTraining, ranks.place());
    set.add_stacked("matrix", {"matrix"});
    set.add_stacked("vector", {"vector"});
    set.allocate();
    for (const auto& parameter : set.all()) {
      for (int64_t e = 0; e < parameter->own_grad.numel(); ++e) {
        const int64_t element = parameter->own.begin + e;
        const bool bad = spoilt != 0 && parameter->name == "matrix" && element == 1;
        parameter->own_grad.mutable_data_ptr<float>()[e] =
            static_cast<float>(bad ? spoilt : element_of(parameter->name, element));
      }
    }
    const GradientNorm norm = gradient_norm_by_rows(
        set, -0.25, [&](layout::AxisSet over, const Tensor& numbers, comm::Reduction how) {
          ranks.reduce_over(over, numbers, how);
        });
    const std::lock_guard lock(mutex);
    if (communicator.rank() == 0) first = norm;
  });
  return first;
}

TEST(GradientNormByRows, HasTheBitsOfOneProcessOnAnyRanks) {
  double squares = 0;
  for (int64_t e = 0; e < kRows * kColumns; ++e) squares += element_of("matrix", e) * element_of("matrix", e);
  for (int64_t e = 0; e < kVector; ++e) squares += element_of("vector", e) * element_of("vector", e);
  const GradientNorm one = norm_on(1, 0);
  EXPECT_NEAR(one.norm, 0.25 * std::sqrt(squares), 1e-14 * std::sqrt(squares));
  EXPECT_TRUE(one.finite);
  for (const int64_t world : {2, 3, 4, 5, 8}) {
    for (const int64_t zero : {0, 1, 2})
      EXPECT_EQ(norm_on(world, zero).norm, one.norm) << world << " ranks, zero " << zero;
  }
}

TEST(GradientNormByRows, SaysWhatIsNotFinite) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (const int64_t zero : {0, 1}) {
      const GradientNorm norm = norm_on(2, zero, bad);
      EXPECT_FALSE(norm.finite);
      EXPECT_EQ(norm.first_nonfinite, "matrix");
    }
  }
}

}  // namespace
}  // namespace longhaul::optim
