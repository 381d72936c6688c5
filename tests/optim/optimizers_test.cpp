// The entries of optimizers (recipe/optimizers) and their classes (optim/optimizer.cpp) agree.
#include "recipe/optimizers/optimizers.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "model/parameter.h"
#include "optim/optimizer.h"
#include "parameters_for_tests.h"

namespace longhaul::optim {
namespace {

using longhaul::optim::testing::spec;

TEST(Optimizers, EveryEntryIsMadeAndOthersAreNot) {
  model::ParameterSet none({}, Precision::named("fp32"), at::kCPU);
  none.allocate();
  ASSERT_GE(recipe::optimizers().size(), 2U);
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    const auto made = make_optimizer({.name = std::string(entry->name)}, none, Precision::named("fp32"));
    ASSERT_NE(made, nullptr) << entry->name;
    EXPECT_EQ(made->steps(), 0) << entry->name;
  }
  EXPECT_THROW(make_optimizer({.name = "nobody"}, none, Precision::named("fp32")), Error);
}

// What a class presents for a checkpoint is what its entry lists, in that order, of matrices and of vectors.
TEST(Optimizers, HaveTheStatesThatTheirEntriesList) {
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    for (const double momentum : {-1.0, 0.0, 0.9}) {
      std::vector<layout::ParameterSpec> specs = {spec("matrix", {5, 7}, true)};
      if (!entry->whole_matrices) specs.push_back(spec("vector", {11}, false));
      for (layout::ParameterSpec& each : specs) each.layer = 0;
      model::ParameterSet set(specs, Precision::named("fp32"), at::kCPU);
      for (const auto& each : specs) set.add_stacked(each.tensor.name, {each.tensor.name});
      set.allocate();
      const recipe::OptimOptions options{.name = std::string(entry->name), .momentum = momentum};
      std::map<std::string, std::vector<std::string>> listed, found;
      using enum recipe::OptimizerState::Of;
      for (const recipe::OptimizerState& state : recipe::states_of(options)) {
        if (state.of != kVector) listed["matrix"].emplace_back(state.kind);
        if (state.of != kRows && state.of != kColumns && !entry->whole_matrices)
          listed["vector"].emplace_back(state.kind);
      }
      const auto optimizer = make_optimizer(options, set, Precision::named("fp32"));
      for (const StateTensor& each : optimizer->state()) {
        if (each.kind != "master") found[each.name].push_back(each.kind);
      }
      EXPECT_EQ(found, listed) << entry->name << ", momentum " << momentum;
    }
  }
}

TEST(Optimizers, RefuseNumbersThatTheyCannotWorkWith) {
  model::ParameterSet none({}, Precision::named("fp32"), at::kCPU);
  none.allocate();
  try {
    make_optimizer({.name = "adafactor", .momentum = 0.5, .adafactor_form = recipe::AdafactorForm::kTorch},
                   none, Precision::named("fp32"));
    ADD_FAILURE() << "torch's form of adafactor has no momentum";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("optim.momentum=0"), std::string::npos) << error.what();
  }
  try {
    make_optimizer({.name = "lamb", .lamb_min_ratio = 2, .lamb_max_ratio = 1}, none,
                   Precision::named("fp32"));
    ADD_FAILURE() << "no ratio is at least 2 and at most 1";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("optim.lamb_min_ratio=0"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(make_optimizer({.name = "lamb", .lamb_min_ratio = 2}, none, Precision::named("fp32")));
}

}  // namespace
}  // namespace longhaul::optim
