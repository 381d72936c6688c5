// What the memory plan says an optimizer keeps, and what it takes while a step goes on, is what the allocator
// counts, within 1 %; an outer loop's too.
#include <gtest/gtest.h>

#include "optim/optimizer.h"
#include "outer_for_tests.h"
#include "parameters_for_tests.h"
#include "plan/memory/update_memory.h"
#include "recipe/optimizers/optimizers.h"
#include "recipe/sections/optim_groups.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::optim {
namespace {

using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers
using recipe::Role;

std::vector<layout::ParameterSpec> matrices_and_a_norm() {
  std::vector<layout::ParameterSpec> specs = {spec("table", {700, 160}, true), spec("up", {384, 160}, true),
                                              spec("down", {160, 384}, true), spec("norm", {160}, false)};
  specs[0].tensor.role = Role::kEmbedding;
  specs[2].tensor.role = Role::kChannelDown;
  for (size_t i = 1; i < specs.size(); ++i) specs[i].layer = 0;
  return specs;
}

model::ParameterSet set_of(const std::vector<layout::ParameterSpec>& specs, const Precision& precision) {
  model::ParameterSet set(specs, precision, at::kCPU);
  for (const auto& each : specs) set.add_stacked(each.tensor.name, {each.tensor.name});
  set.allocate();
  return set;
}

double planned_state(const recipe::OptimOptions& options, const std::vector<layout::ParameterSpec>& specs) {
  double planned = 0;
  for (const auto& each : specs) {
    const layout::Shape& shape = each.tensor.global_shape;
    planned +=
        static_cast<double>(recipe::state_bytes(options, each.tensor.role, each.layer, shape, shape, 4));
    // the master beside bf16
    if (!layout::kept_wide(each)) planned += 4 * static_cast<double>(each.elements());
  }
  return planned;
}

double held(MemoryPurpose purpose) { return static_cast<double>(memory_statistics().of(purpose).bytes); }

void expect_as_planned(const recipe::OptimOptions& options, const std::string& what) {
  const std::vector<layout::ParameterSpec> specs = matrices_and_a_norm();
  const Precision precision = Precision::named("bf16");
  model::ParameterSet set = set_of(specs, precision);
  const double before = held(MemoryPurpose::kOptimizer), planned = planned_state(options, specs);
  const auto optimizer = make_optimizer(options, set, precision);
  EXPECT_NEAR(held(MemoryPurpose::kOptimizer) - before, planned, 0.01 * planned) << what;

  plan::UpdateMemory updating(options, 4);
  for (const auto& each : specs) updating.add(each, each.tensor.global_shape, 1);
  fill_gradients(set, 1);
  const MemoryStatistics between = memory_statistics();
  reset_memory_peaks();
  optimizer->step({.lr = 1e-3});
  const auto taken = static_cast<double>(memory_statistics().of(MemoryPurpose::kWorkspace).peak -
                                         between.of(MemoryPurpose::kWorkspace).bytes);
  EXPECT_NEAR(taken, updating.bytes(), 0.01 * updating.bytes() + 1024) << what << " while a step goes on";
  // Four bytes a matrix stay of what a step finds out.
  EXPECT_NEAR(static_cast<double>(memory_statistics().total.bytes), static_cast<double>(between.total.bytes),
              64)
      << what << " keeps nothing of a step";
}

TEST(OptimizerMemory, IsWhatThePlanSays) {
  install_cpu_allocator();
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    using enum recipe::StateDtype;
    for (const auto& [momentum, dtype] :
         {std::pair(-1.0, kFloat32), {0.0, kFloat32}, {0.9, kFloat32}, {0.9, kBfloat16}, {0.9, kInt8}}) {
      expect_as_planned({.name = std::string(entry->name), .momentum = momentum, .state_dtype = dtype},
                        fmt::format("{}, momentum {}, {}", entry->name, momentum, static_cast<int>(dtype)));
    }
  }
}

TEST(OptimizerMemory, OfGroupsIsWhatThePlanSays) {
  install_cpu_allocator();
  const auto with = [](std::string name, std::vector<recipe::OptimGroup> groups) {
    return recipe::OptimOptions{.name = std::move(name), .groups = std::move(groups)};
  };
  expect_as_planned(with("came", {{.tensors = {Role::kEmbedding}, .name = "adamw"}}),
                    "came, a table of adamw's");
  expect_as_planned(with("adamw", {{.tensors = {Role::kEmbedding}, .name = "adafactor"},
                                   {.tensors = {Role::kChannelUp}, .state_dtype = "int8"}}),
                    "adamw, a table of adafactor's, a matrix in 8 bits");
  expect_as_planned(with("muon", {{.tensors = {Role::kChannelDown}, .name = "sm3"},
                                  {.tensors = {Role::kNorm}, .name = "sgd"}}),
                    "muon, a matrix of sm3's, norms of sgd's");
}

// Two workers, threads of this process: twice what one has.
TEST(OptimizerMemory, OfOuterLoopsIsWhatThePlanSays) {
  install_cpu_allocator();
  const std::vector<layout::ParameterSpec> specs = matrices_and_a_norm();
  const Precision precision = Precision::named("bf16");
  const std::vector<std::pair<const char*, OuterOptions>> all = {
      {"local_sgd", {.method = Outer::kLocalSgd, .every = 1}},
      {"slowmo", {.method = Outer::kSlowmo, .every = 1}},
      {"slowmo without momentum", {.method = Outer::kSlowmo, .every = 1, .momentum = 0}},
      {"diloco", {.method = Outer::kDiloco, .every = 1}},
      {"co2", {.method = Outer::kCo2, .every = 1}},
      {"co2, a gap for each tensor, in bf16",
       {.method = Outer::kCo2,
        .every = 1,
        .gap = OuterGap::kPerTensor,
        .wire = recipe::OuterWire::kBfloat16}},
      {"delay_corrected", {.method = Outer::kDelayCorrected, .every = 1}},
      {"streaming in bf16",
       {.method = Outer::kStreaming, .every = 2, .fragments = 2, .wire = recipe::OuterWire::kBfloat16}}};
  for (const auto& [name, options] : all) {
    recipe::OptimOptions optim{.name = "came"};
    optim.outer = options;
    const double planned = 2 * planned_state(optim, specs), before = held(MemoryPurpose::kOptimizer);
    double counted = 0;
    comm::run_ranks(2, [&](comm::Communicator& world) {
      model::ParameterSet set = set_of(specs, precision);
      fill_values(set);
      parallel::Ranks ranks(world, {.mesh = layout::Mesh(1, {}), .workers = 2});
      const auto optimizer = make_optimizer(optim, set, precision);
      OuterLoop loop(options, *optimizer, set, ranks);
      for (int64_t step = 1; step <= 3; ++step) {
        fill_gradients(set, 1);
        optimizer->step({.lr = 1e-3});
        loop.after_step({.lr = 1e-3, .left = 5 - step});
      }
      loop.settle();
      world.barrier({.name = "both hold all"}).wait();
      if (world.rank() == 0) counted = held(MemoryPurpose::kOptimizer) - before;
      world.barrier({.name = "it was counted"}).wait();
    });
    EXPECT_NEAR(counted, planned, 0.01 * planned) << name;
  }
}

}  // namespace
}  // namespace longhaul::optim
