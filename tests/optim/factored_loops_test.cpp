// The fused steps of CAME, Adafactor and SM3 on a CPU: the same as LibTorch's operations, on awkward shapes,
// and the same bits whatever the instruction set and the number of threads. What both should be is
// known_values_test's and came_test's.
#include <gtest/gtest.h>

#include <map>

#include "base/threads/parallel.h"
#include "optim/optimizers/adafactor.h"
#include "optim/optimizers/came.h"
#include "optim/optimizers/sm3.h"
#include "parameters_for_tests.h"
#include "support/instruction_sets.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers
using recipe::AdafactorForm;

// A frozen part, a matrix of more tiles than one, of fewer columns than interleave, of one row and of one
// column.
std::vector<layout::ParameterSpec> awkward_specs() {
  return {spec("a", {5, 7}, true),      spec("frozen", {3, 7}, true, false), spec("b", {4, 7}, false),
          spec("norm", {37}, false),    spec("tall", {531, 130}, true),      spec("row", {1, 33}, true),
          spec("column", {19, 1}, true)};
}

model::ParameterSet awkward_set(Precision precision) {
  model::ParameterSet set(awkward_specs(), precision, at::kCPU);
  set.add_stacked("together", {"a", "frozen", "b"});
  for (const char* name : {"norm", "tall", "row", "column"}) set.add_stacked(name, {name});
  set.allocate();
  return set;
}

using Maker =
    std::function<std::unique_ptr<Optimizer>(model::ParameterSet&, Precision, MatrixImplementation)>;

template <class Kind>
Maker maker(recipe::OptimOptions options) {
  return [options](model::ParameterSet& set, Precision precision, MatrixImplementation implementation) {
    return std::make_unique<Kind>(options, Members(set, precision), implementation);
  };
}

std::map<std::string, Maker> makers() {
  return {
      {"came", maker<Came>({.name = "came", .beta2 = 0.99, .beta3 = 0.99})},
      {"came clipped", maker<Came>({.name = "came", .beta2 = 0.99, .beta3 = 0.99, .update_clip = 0.1})},
      {"adafactor", maker<Adafactor>({.name = "adafactor"})},
      {"adafactor, momentum",
       maker<Adafactor>(
           {.name = "adafactor", .momentum = 0.9, .scale_by_weights = false, .relative_step = false})},
      {"adafactor torch", maker<Adafactor>({.name = "adafactor", .adafactor_form = AdafactorForm::kTorch})},
      {"adafactor big_vision",
       maker<Adafactor>({.name = "adafactor", .momentum = 0.9, .adafactor_form = AdafactorForm::kBigVision})},
      {"sm3", maker<Sm3>({.name = "sm3"})},
      {"sm3, no momentum", maker<Sm3>({.name = "sm3", .momentum = 0})}};
}

// Values, masters and states after a few steps, and gradients.
std::map<std::string, Tensor> after_steps(const Maker& make, const char* dtype,
                                          MatrixImplementation implementation) {
  const Precision precision = Precision::named(dtype);
  model::ParameterSet set = awkward_set(precision);
  fill_values(set);
  const auto optimizer = make(set, precision, implementation);
  for (uint64_t step = 1; step <= 3; ++step) {
    fill_gradients(set, step);
    optimizer->step({.lr = 1e-2, .gradient_scale = 0.3});
    for (const auto& each : set.specs())
      EXPECT_TRUE(grad_of(set, each.tensor.name).eq(0).all().item<bool>()) << each.tensor.name;
  }
  std::map<std::string, Tensor> all;
  for (const StateTensor& each : optimizer->state()) all[each.name + " " + each.kind] = each.view.clone();
  for (const auto& each : set.specs()) all[each.tensor.name] = value_of(set, each.tensor.name).clone();
  return all;
}

TEST(FactoredLoops, AreTensorOperations) {
  const longhaul::testing::PoisonFreshMemory poison;
  for (const auto& [label, make] : makers()) {
    for (const auto& [dtype, bound] :
         {std::pair("fp64", 1e-12), std::pair("fp32", 3e-6), std::pair("bf16", 1e-2)}) {
      const auto fused = after_steps(make, dtype, MatrixImplementation::kAutomatic);
      for (const auto& [name, expected] : after_steps(make, dtype, MatrixImplementation::kTensorOperations)) {
        EXPECT_LT(relative_error(fused.at(name), expected), bound) << label << ", " << dtype << ", " << name;
      }
      EXPECT_TRUE(same_bits(fused.at("frozen"),
                            random_tensor({3, 7}, seed_of("frozen", 0)).to(fused.at("frozen").scalar_type())))
          << label;
    }
  }
}

TEST(FactoredLoops, InstructionSetsAndThreadsChangeNoBit) {
  const int before = threads();
  for (const auto& [label, make] : makers()) {
    for (const char* dtype : {"fp64", "bf16"}) {
      const auto first = after_steps(make, dtype, MatrixImplementation::kAutomatic);
      const auto expect_same = [&](const std::string& what) {
        for (const auto& [name, tensor] : after_steps(make, dtype, MatrixImplementation::kAutomatic))
          EXPECT_TRUE(same_bits(tensor, first.at(name)))
              << label << ", " << dtype << ", " << name << ": " << what;
      };
      longhaul::testing::for_each_instruction_set([&] { expect_same("instruction set"); });
      for (const int count : {1, 3}) {
        set_threads(count);
        expect_same("threads");
      }
      set_threads(before);
    }
  }
}

}  // namespace
}  // namespace longhaul::optim
