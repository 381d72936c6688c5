// What the memory plan says an optimizer keeps is what the allocator counts, within 1 %.
#include <gtest/gtest.h>

#include "optim/optimizer.h"
#include "parameters_for_tests.h"
#include "recipe/optim_groups.h"
#include "recipe/optimizers.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::optim {
namespace {

using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

TEST(OptimizerMemory, IsWhatThePlanSays) {
  install_cpu_allocator();
  std::vector<layout::ParameterSpec> specs = {spec("table", {700, 160}, true), spec("up", {384, 160}, true), spec("down", {160, 384}, true),
                                              spec("norm", {160}, false)};
  for (size_t i = 1; i < specs.size(); ++i) specs[i].layer = 0;
  for (const recipe::OptimizerEntry& entry : recipe::optimizers()) {
    using enum recipe::StateDtype;
    for (const auto& [momentum, dtype] : {std::pair(-1.0, kFloat32), {0.0, kFloat32}, {0.9, kFloat32}, {0.9, kBfloat16}, {0.9, kInt8}}) {
      const recipe::OptimOptions options{.name = std::string(entry.name), .momentum = momentum, .state_dtype = dtype};
      const Precision precision = Precision::named("bf16");
      model::ParameterSet set(specs, precision, at::kCPU);
      for (const auto& each : specs) set.add_stacked(each.tensor.name, {each.tensor.name});
      set.allocate();
      const int64_t before = memory_statistics().of(MemoryPurpose::kOptimizer).bytes;
      const auto optimizer = make_optimizer(options, set, precision);
      const auto held = static_cast<double>(memory_statistics().of(MemoryPurpose::kOptimizer).bytes - before);
      double planned = 0;
      for (const auto& each : specs) {
        const layout::Shape& shape = each.tensor.global_shape;
        planned += static_cast<double>(recipe::state_bytes(options, each.tensor.role, each.layer, shape, shape, 4));
        if (!layout::kept_wide(each)) planned += 4 * static_cast<double>(each.elements());  // the master beside bf16
      }
      EXPECT_NEAR(held, planned, 0.01 * planned) << entry.name << ", momentum " << momentum << ", " << static_cast<int>(dtype);
      fill_gradients(set, 1);
      optimizer->step({.lr = 1e-3});
      EXPECT_NEAR(static_cast<double>(memory_statistics().of(MemoryPurpose::kOptimizer).bytes - before), planned, 0.01 * planned)
          << entry.name << " keeps nothing of a step";
    }
  }
}

}  // namespace
}  // namespace longhaul::optim
