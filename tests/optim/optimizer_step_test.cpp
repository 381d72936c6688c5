// optimizer_step, the operator that Python has (kernels/optimizer_step), beside the trainer's optimizers:
// values and states to the bit, step after step. What the trainer's should be is known_values_test's,
// came_test's and, from Python, tests/peer/optimizer_steps.py's.
#include "kernels/optimizer_step/op.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "optim/optimizer.h"
#include "parameters_for_tests.h"
#include "recipe/optimizers/optimizers.h"

namespace longhaul::optim {
namespace {

using kernels::optimizer_states;
using kernels::OptimizerStep;
using longhaul::testing::random_tensor;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers
using recipe::AdafactorForm;
using Numbers = std::vector<double>;

struct StepCase {
  std::string label;
  recipe::OptimOptions options;
  Numbers given;
  std::string dtype;  // empty: fp32 and fp64
};

std::vector<StepCase> step_cases() {
  std::vector<StepCase> cases;
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {  // a recipe's numbers are the operator's
    const std::string name(entry->name);
    cases.push_back({name, {.name = name}, {}, {}});
  }
  const auto add = [&](const std::string& label, recipe::OptimOptions options, Numbers given,
                       const std::string& dtype = {}) {
    cases.push_back({label, std::move(options), std::move(given), dtype});
  };
  add("adamw", {.name = "adamw", .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-4, .weight_decay = 0.3},
      {0.8, 0.99, 1e-4, 0.3});
  add("lamb l2", {.name = "lamb", .lamb_decay = recipe::LambDecay::kL2}, {0.9, 0.95, 1e-8, 0.1, 0, 1});
  add("lamb without decay", {.name = "lamb", .weight_decay = 0}, {0.9, 0.95, 1e-8, 0});
  add("nvlamb", {.name = "lamb", .nvlamb = true, .weight_decay = 0}, {0.9, 0.95, 1e-8, 0, 1});
  add("lamb sums, bounded",
      {.name = "lamb", .lamb_grad_averaging = false, .lamb_min_ratio = 0.5, .lamb_max_ratio = 0.9},
      {0.9, 0.95, 1e-8, 0.1, 0, 0, 0, 0.5, 0.9});
  add("came clipped",
      {.name = "came", .beta3 = 0.99, .update_clip = 0.1, .square_eps = 1e-20, .residual_eps = 1e-10},
      {0.9, 0.95, 0.99, 0.1, 0.1, 1e-20, 1e-10});
  add("came corrected", {.name = "came", .beta3 = 0.99, .correct_residuals = true},
      {0.9, 0.95, 0.99, 0.1, 1, 1e-30, 1e-16, 1});
  add("adafactor torch", {.name = "adafactor", .adafactor_form = AdafactorForm::kTorch}, {0, 0.1, 1});
  add("adafactor big_vision",
      {.name = "adafactor", .momentum = 0.8, .adafactor_form = AdafactorForm::kBigVision}, {0.8, 0.1, 2});
  add("adafactor with its own rate",
      {.name = "adafactor",
       .update_clip = 0.5,
       .momentum = 0.9,
       .scale_by_weights = false,
       .relative_step = false},
      {0.9, 0.1, 0, 0, 0, 0.5});
  add("lion faded", {.name = "lion", .beta2 = 0.99, .sign_fade = 0.5, .weight_decay = 0},
      {0.9, 0.99, 0, 0.5});
  add("muon original",
      {.name = "muon",
       .momentum = 0.8,
       .nesterov = false,
       .muon_scale = recipe::MuonScale::kOriginal,
       .muon_iterations = 3},
      {0.8, 0.1, 0, 1, 3});
  add("muon, products in bf16", {.name = "muon"}, {0.95, 0.1, 1, 0, 5, 1}, "bf16");
  add("sm3 without momentum", {.name = "sm3", .square_eps = 1e-10, .momentum = 0}, {0, 0.1, 1e-10});
  add("sgd without momentum", {.name = "sgd", .momentum = 0}, {0});
  add("sgd, no look ahead", {.name = "sgd", .nesterov = false}, {0.9, 0.1, 0});
  return cases;
}

// More than a tile and than a stretch, one row, one column, few columns; vectors.
std::vector<layout::ParameterSpec> step_specs(const std::string& optimizer) {
  std::vector<layout::ParameterSpec> specs = {spec("a", {5, 7}, true), spec("tall", {531, 130}, true),
                                              spec("row", {1, 33}, true), spec("column", {19, 1}, true)};
  if (optimizer != "muon")
    specs.push_back(spec("vector", {70003}, true)), specs.push_back(spec("norm", {37}, true));
  for (layout::ParameterSpec& each : specs) each.layer = 0;
  return specs;
}

std::map<std::string, std::vector<StateTensor>> states_of_trainer(Optimizer& optimizer) {
  std::map<std::string, std::vector<StateTensor>> states;
  for (const StateTensor& each : optimizer.state()) states[each.name].push_back(each);  // the master first
  return states;
}

void expect_trainers_bits(const StepCase& each, const std::string& dtype) {
  SCOPED_TRACE(each.label + ", " + dtype);
  const std::vector<layout::ParameterSpec> specs = step_specs(each.options.name);
  model::ParameterSet set(specs, Precision::named(dtype), at::kCPU);
  for (const auto& tensor : specs) set.add_stacked(tensor.tensor.name, {tensor.tensor.name});
  set.allocate();
  fill_values(set);
  const auto trainer = make_optimizer(each.options, set, Precision::named(dtype));
  OptimizerStep call{.name = each.options.name, .lr = 1e-2, .options = each.given};
  for (const auto& tensor : specs) {
    call.values.push_back(states_of_trainer(*trainer).at(tensor.tensor.name)[0].view.clone());
    call.gradients.push_back(at::empty_like(call.values.back()));
  }
  std::vector<std::string> kinds;
  for (const kernels::NamedState& state : optimizer_states(call.name, call.values, call.options)) {
    kinds.emplace_back(state.kind);
    call.states.push_back(state.tensor);
  }
  for (call.step = 1; call.step <= 4; ++call.step) {
    fill_gradients(set, static_cast<uint64_t>(call.step));
    for (size_t i = 0; i < specs.size(); ++i) call.gradients[i].copy_(grad_of(set, specs[i].tensor.name));
    const std::vector<Tensor> given = at::_foreach_clone(call.gradients);
    trainer->step({.lr = 1e-2});
    kernels::optimizer_step(call);
    std::map<std::string, std::vector<StateTensor>> expected = states_of_trainer(*trainer);
    size_t next = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
      const std::vector<StateTensor>& of_tensor = expected.at(specs[i].tensor.name);
      EXPECT_TRUE(same_bits(call.values[i], of_tensor[0].view))
          << specs[i].tensor.name << " step " << call.step;
      EXPECT_TRUE(same_bits(call.gradients[i], given[i])) << "the gradient stays";
      for (size_t k = 1; k < of_tensor.size(); ++k, ++next) {
        ASSERT_LT(next, kinds.size());
        EXPECT_EQ(kinds[next], of_tensor[k].kind) << specs[i].tensor.name;
        EXPECT_TRUE(same_bits(call.states[next], of_tensor[k].view))
            << specs[i].tensor.name << " " << kinds[next] << " step " << call.step;
      }
    }
    EXPECT_EQ(next, kinds.size());
  }
}

TEST(OptimizerStep, HasTheTrainersBits) {
  for (const StepCase& each : step_cases()) {
    if (!each.dtype.empty())
      expect_trainers_bits(each, each.dtype);
    else
      for (const char* dtype : {"fp32", "fp64"}) expect_trainers_bits(each, dtype);
  }
}

TEST(OptimizerStep, EveryOptimizerOfARecipeIsThere) {
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    const Numbers none;
    EXPECT_NO_THROW(optimizer_states(std::string(entry->name), {at::ones({2, 3})}, none)) << entry->name;
  }
}

// A stack is its matrices, each by itself; memory that does not lie side by side is written all the same.
TEST(OptimizerStep, StacksAndStridesChangeNoBit) {
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    const std::string name(entry->name);
    SCOPED_TRACE(name);
    const Tensor start = random_tensor({2, 3, 5, 7}, 1), gradient = random_tensor({2, 3, 5, 7}, 2);
    OptimizerStep stacked{.name = name, .values = {start.clone()}, .gradients = {gradient}, .lr = 1e-2};
    OptimizerStep apart = stacked, strided = stacked;
    for (const kernels::NamedState& each : optimizer_states(name, stacked.values, {}))
      stacked.states.push_back(each.tensor);
    // Every other element of memory twice as long; the others stay.
    const auto spread = [](const Tensor& tensor) {
      return at::stack({tensor, at::full_like(tensor, 7)}, -1).select(-1, 0);
    };
    strided.values = {spread(start)}, strided.gradients = {spread(gradient)};
    for (const Tensor& state : stacked.states) strided.states.push_back(spread(state));
    apart.values.clear(), apart.gradients.clear();
    for (int64_t k = 0; k < 6; ++k) {
      apart.values.push_back(start.view({6, 5, 7})[k].clone());
      apart.gradients.push_back(gradient.view({6, 5, 7})[k]);
    }
    for (const kernels::NamedState& each : optimizer_states(name, apart.values, {}))
      apart.states.push_back(each.tensor);
    for (int64_t step = 1; step <= 3; ++step) {
      for (OptimizerStep* call : {&stacked, &apart, &strided})
        call->step = step, kernels::optimizer_step(*call);
    }
    EXPECT_TRUE(same_bits(stacked.values[0].view({6, 5, 7}), at::stack(apart.values)));
    EXPECT_TRUE(same_bits(stacked.values[0], strided.values[0]));
    EXPECT_FALSE(same_bits(stacked.values[0], start));
    for (size_t k = 0; k < stacked.states.size(); ++k) {
      EXPECT_TRUE(same_bits(stacked.states[k], strided.states[k])) << k;
      const std::vector<Tensor> of_matrices = [&] {
        std::vector<Tensor> states;
        for (size_t i = k; i < apart.states.size(); i += stacked.states.size())
          states.push_back(apart.states[i]);
        return states;
      }();
      const Tensor together = at::stack(of_matrices);
      EXPECT_TRUE(same_bits(stacked.states[k].reshape(together.sizes()), together)) << k;
    }
  }
}

TEST(OptimizerStep, TensorsWithoutElementsAndNoTensorsAtAll) {
  for (const recipe::OptimizerEntry* entry : recipe::optimizers()) {
    OptimizerStep call{.name = std::string(entry->name),
                       .values = {at::zeros({0, 3}), at::zeros({3, 0}), at::zeros({0, 2, 2})},
                       .lr = 1};
    call.gradients = at::_foreach_clone(call.values);
    for (const kernels::NamedState& each : optimizer_states(call.name, call.values, {}))
      call.states.push_back(each.tensor);
    EXPECT_NO_THROW(kernels::optimizer_step(call)) << entry->name;
    EXPECT_NO_THROW(kernels::optimizer_step({.name = std::string(entry->name)}));
  }
}

TEST(OptimizerStep, RefusesWhatDoesNotFitAndWritesNothing) {
  const Tensor w = at::ones({2, 3});
  OptimizerStep right{.name = "came", .values = {w}, .gradients = {at::ones({2, 3})}, .lr = 1e-3};
  for (const kernels::NamedState& each : optimizer_states("came", {w}, {}))
    right.states.push_back(each.tensor);
  const auto refused = [&](const std::string& argument, const std::string& expected, const auto& spoil) {
    OptimizerStep call = right;
    spoil(call);
    try {
      kernels::optimizer_step(call);
      ADD_FAILURE() << argument << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("bad argument " + argument),
                                                 ::testing::HasSubstr(expected)));
    }
    EXPECT_TRUE(at::equal(w, at::ones({2, 3})));
  };
  refused("name", "adamw, lamb, came, adafactor, lion, sm3, muon, sgd",
          [](OptimizerStep& call) { call.name = "adam"; });
  refused("values[0]", "fp32",
          [](OptimizerStep& call) { call.values[0] = call.values[0].to(at::kBFloat16); });
  refused("values[0]", "matrices [n, m]",
          [](OptimizerStep& call) { call.name = "muon", call.values[0] = at::ones({3}); });
  refused("gradients", "1, one for each of values", [](OptimizerStep& call) { call.gradients.clear(); });
  refused("gradients[0]", "[2, 3] fp32 on cpu", [](OptimizerStep& call) {
    call.gradients[0] = at::ones({3, 2});
  });
  refused("gradients[0]", "[2, 3] fp32 on cpu", [](OptimizerStep& call) {
    call.gradients[0] = at::ones({2, 3}, at::kDouble);
  });
  refused("states", "5 of came for these 1 values", [](OptimizerStep& call) { call.states.pop_back(); });
  refused("states[1]", "row_mean of values[0]: [2] fp32 on cpu",
          [](OptimizerStep& call) { call.states[1] = at::zeros({3}); });
  refused("step", "1 or more", [](OptimizerStep& call) { call.step = 0; });
  refused("lr", "0 or more", [](OptimizerStep& call) { call.lr = -1; });
  refused("beta3 (options[2])", "a number from 0 to 0.999999999", [](OptimizerStep& call) {
    call.options = {0.9, 0.9, 1};
  });
  refused("options", "at most 8 numbers for came: beta1, beta2",
          [](OptimizerStep& call) { call.options = Numbers(9, 0.5); });
  refused("residual_eps (options[6])", "a number above 0 and at most 1",
          [](OptimizerStep& call) { call.options = {0.9, 0.9, 0.9, 0, 1, 1, 0}; });
  refused("options",
          "at most 6 numbers for muon: momentum, weight_decay, nesterov, muon_scale, muon_iterations, "
          "bf16_products",
          [](OptimizerStep& call) { call.name = "muon", call.options = Numbers(7, 0.5); });
  refused("bf16_products (options[5])", "a whole number from 0 to 1",
          [](OptimizerStep& call) { call.name = "muon", call.options = {0.9, 0, 1, 0, 5, 2}; });
  refused("momentum (options[0])", "0: torch's form of adafactor has no momentum", [](OptimizerStep& call) {
    call.name = "adafactor", call.options = {0.5, 0, 1};
  });
  refused("adafactor_form (options[2])", "a whole number from 0 to 2", [](OptimizerStep& call) {
    call.name = "adafactor", call.options = {0, 0, 0.5};
  });
}

}  // namespace
}  // namespace longhaul::optim
