// The two lists of optimizers, recipe/optimizers/optimizers.cpp and optim/optimizer.cpp, name the same ones.
#include "recipe/optimizers/optimizers.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/parameter.h"
#include "optim/optimizer.h"

namespace longhaul::optim {
namespace {

TEST(Optimizers, EveryEntryIsMadeAndOthersAreNot) {
  model::ParameterSet none({}, Precision::named("fp32"), at::kCPU);
  none.allocate();
  ASSERT_GE(recipe::optimizers().size(), 2U);
  for (const recipe::OptimizerEntry& entry : recipe::optimizers()) {
    const auto made = make_optimizer({.name = std::string(entry.name)}, none, Precision::named("fp32"));
    ASSERT_NE(made, nullptr) << entry.name;
    EXPECT_EQ(made->steps(), 0) << entry.name;
  }
  EXPECT_THROW(make_optimizer({.name = "nobody"}, none, Precision::named("fp32")), Error);
}

}  // namespace
}  // namespace longhaul::optim
