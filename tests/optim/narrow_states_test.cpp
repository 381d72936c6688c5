// Optimizers with states in bf16 and in 8 bits: a step is that of the wide optimizer on what the states stand
// for, runs go on bit for bit, layouts that cut a block are refused, what is small or a table or a vector
// stays wide, and an average's small steps are not lost. How low training comes with them:
// bench/results/quality.md.
#include "optim/optimizers/narrow_state.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "kernels/adamw/op.h"
#include "kernels/quantized_state/code_map.h"
#include "optim/optimizer.h"
#include "parameters_for_tests.h"
#include "support/instruction_sets.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers
using recipe::StateDtype;

recipe::OptimOptions options_of(const std::string& name, StateDtype dtype) {
  return {.name = name,
          .beta2 = 0.95,
          .momentum = 0.9,
          .state_dtype = dtype,
          .state_block = 64,
          .state_least = 30,
          .weight_decay = 0.1};
}

std::map<std::string, Tensor> states_of(Optimizer& optimizer) {
  std::map<std::string, Tensor> result;
  for (const StateTensor& each : optimizer.state()) result[each.name + " " + each.kind] = each.view.clone();
  return result;
}

// [n, m] codes and [n, blocks] scales.
Tensor decoded(const Tensor& codes, const Tensor& scales, const kernels::CodeMap& map, int64_t block) {
  const Tensor values =
      at::from_blob(const_cast<float*>(map.values.data()), {256}, at::kFloat).index({codes.to(at::kLong)});
  return values * scales.repeat_interleave(block, 1).narrow(1, 0, codes.size(1));
}

TEST(NarrowStates, AdamwStepsFromWhatItsStatesStandFor) {
  const longhaul::testing::PoisonFreshMemory poison;
  const recipe::OptimOptions options = options_of("adamw", StateDtype::kInt8);
  const Precision precision = Precision::named("bf16");
  model::ParameterSet set = fused_set(precision);
  fill_values(set);
  const auto optimizer = make_optimizer(options, set, precision, 11);
  for (int64_t step = 1; step <= 4; ++step) {
    std::map<std::string, Tensor> before = states_of(*optimizer);
    fill_gradients(set, static_cast<uint64_t>(step));
    optimizer->step({.lr = 1e-2, .gradient_scale = 0.5});
    std::map<std::string, Tensor> after = states_of(*optimizer);
    for (const auto& each : small_specs()) {
      const std::string& name = each.tensor.name;
      const bool coded = each.tensor.global_shape.size() == 2 && each.elements() >= options.state_least;
      ASSERT_EQ(after.contains(name + " m_codes"), coded) << name;
      const auto moment = [&](std::map<std::string, Tensor>& of, const char* kind,
                              const kernels::CodeMap& map) {
        return coded ? decoded(of.at(name + " " + kind + "_codes"), of.at(name + " " + kind + "_scales"), map,
                               64)
                     : of.at(name + " " + kind);
      };
      Tensor w = before.at(name + " master").clone(),
             m = moment(before, "m", kernels::signed_map()).contiguous(),
             v = moment(before, "v", kernels::unsigned_map()).contiguous();
      const Tensor g =
          random_tensor(each.tensor.global_shape, seed_of(name, static_cast<uint64_t>(step)), at::kFloat);
      const auto span = [](const Tensor& t) {
        return std::span<float>(t.mutable_data_ptr<float>(), static_cast<size_t>(t.numel()));
      };
      kernels::adamw_reference<float>(span(w), span(m), span(v), span(g),
                                      {.lr = 1e-2,
                                       .beta1 = 0.9,
                                       .beta2 = 0.95,
                                       .weight_decay = each.decay ? 0.1 : 0,
                                       .gradient_scale = 0.5,
                                       .t = step});
      EXPECT_LT(relative_error(after.at(name + " master"), w), 1e-6) << name;
      // A gap of the map is at most 0.9/64 of its block's largest, of a signed one, and half that of an
      // unsigned one.
      EXPECT_LT(relative_error(moment(after, "m", kernels::signed_map()), m), coded ? 0.0142 : 1e-6) << name;
      EXPECT_LT(relative_error(moment(after, "v", kernels::unsigned_map()), v), coded ? 0.0072 : 1e-6)
          << name;
    }
  }
}

// The same seed gives the same bits, on any number of threads and with any instruction set; another seed or
// step gives others.
TEST(NarrowStates, BitsAreThoseOfSeedAndStep) {
  for (const char* name : {"adamw", "lamb", "lion", "sgd", "came", "adafactor", "sm3", "muon"}) {
    for (const StateDtype dtype : {StateDtype::kBfloat16, StateDtype::kInt8}) {
      const auto run = [&](uint64_t seed, int64_t saved_after) {
        const Precision precision = Precision::named("fp32");
        model::ParameterSet set = unfused_set(precision);
        fill_values(set);
        auto optimizer = make_optimizer(options_of(name, dtype), set, precision, seed);
        for (int64_t step = 1; step <= 4; ++step) {
          fill_gradients(set, static_cast<uint64_t>(step));
          optimizer->step({.lr = 1e-2});
          if (step != saved_after) continue;
          const std::map<std::string, Tensor> saved = states_of(*optimizer);
          optimizer = make_optimizer(options_of(name, dtype), set, precision, seed);
          for (const StateTensor& each : optimizer->state())
            each.view.copy_(saved.at(each.name + " " + each.kind));
          optimizer->set_steps(step);
        }
        return states_of(*optimizer);
      };
      const auto same = [](const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
        return std::ranges::all_of(
            a, [&](const auto& each) { return same_bits(each.second, b.at(each.first)); });
      };
      const std::map<std::string, Tensor> first = run(3, 0);
      EXPECT_TRUE(same(first, run(3, 2))) << name << ": resumed";
      EXPECT_FALSE(same(first, run(4, 0))) << name << ": another seed";
      if (name == std::string("muon")) continue;  // whose products are each set's own
      longhaul::testing::for_each_instruction_set([&] { EXPECT_TRUE(same(first, run(3, 0))) << name; });
    }
  }
}

TEST(NarrowStates, SmallTensorsTablesAndVectorsStayWide) {
  layout::ParameterSpec table = spec("table", {64, 100}, true);
  table.tensor.role = layout::Role::kEmbedding;
  const std::vector<layout::ParameterSpec> specs = {
      table, spec("large", {64, 100}, true), spec("small", {30, 100}, true), spec("norm", {5000}, false)};
  const auto kinds = [&](StateDtype dtype) {
    model::ParameterSet set(specs, Precision::named("bf16"), at::kCPU);
    for (const auto& each : specs) set.add_stacked(each.tensor.name, {each.tensor.name});
    set.allocate();
    const auto optimizer = make_optimizer({.state_dtype = dtype}, set, Precision::named("bf16"));
    std::map<std::string, std::string> dtypes;
    for (const StateTensor& each : optimizer->state()) {
      if (each.kind.starts_with("m_") || each.kind == "m")
        dtypes[each.name] += each.kind + " " + std::string(name_of(each.view.scalar_type())) + " ";
    }
    return dtypes;
  };
  EXPECT_EQ(kinds(StateDtype::kInt8),
            (std::map<std::string, std::string>{{"large", "m_codes uint8 m_scales fp32 "},
                                                {"norm", "m fp32 "},
                                                {"small", "m fp32 "},
                                                {"table", "m fp32 "}}));
  EXPECT_EQ(kinds(StateDtype::kBfloat16),
            (std::map<std::string, std::string>{
                {"large", "m bf16 "}, {"norm", "m fp32 "}, {"small", "m bf16 "}, {"table", "m bf16 "}}));
}

// An average over a thousand steps follows what it averages although one step adds less than half a unit of
// bf16: rounding to nearest would stay where it began.
TEST(NarrowStates, SmallStepsOfAnAverageAreNotLost) {
  for (const StateDtype dtype : {StateDtype::kBfloat16, StateDtype::kInt8}) {
    model::ParameterSet set({spec("w", {4, 256}, true)}, Precision::named("fp32"), at::kCPU);
    set.add_stacked("w", {"w"});
    set.allocate();
    recipe::OptimOptions options = options_of("lion", dtype);
    options.beta2 = 0.999;
    const auto optimizer = make_optimizer(options, set, Precision::named("fp32"), 5);
    const Tensor g = random_tensor({4, 256}, 9, at::kFloat).abs() * 0.2 + 0.8;
    for (int step = 0; step < 1500; ++step) {
      grad_of(set, "w").copy_(g);
      optimizer->step({.lr = 0});
    }
    std::map<std::string, Tensor> state = states_of(*optimizer);
    const Tensor m =
        dtype == StateDtype::kBfloat16
            ? state.at("w momentum").to(at::kFloat)
            : decoded(state.at("w momentum_codes"), state.at("w momentum_scales"), kernels::signed_map(), 64);
    const double expected = 1 - std::pow(0.999, 1500);
    EXPECT_NEAR((m / g).mean().item<double>(), expected, 0.01);
  }
}

}  // namespace
}  // namespace longhaul::optim
