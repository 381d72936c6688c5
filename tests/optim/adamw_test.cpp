#include "optim/optimizers/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/matmul/matmul.h"
#include "parameters_for_tests.h"
#include "support/instruction_sets.h"

namespace longhaul::optim {
namespace {

using longhaul::testing::random_tensor;
using longhaul::testing::relative_error;
using namespace longhaul::optim::testing;  // NOLINT: this test's own helpers

recipe::OptimOptions options_for_tests() {
  return {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
}

StepSettings settings_of(int64_t step) {
  return {.lr = 1e-2 / static_cast<double>(step), .gradient_scale = 0.125};
}

void run_steps(model::ParameterSet& set, Optimizer& optimizer, int64_t steps) {
  for (int64_t step = 1; step <= steps; ++step) {
    fill_gradients(set, static_cast<uint64_t>(step));
    optimizer.step(settings_of(step));
  }
}

Tensor state_of(Optimizer& optimizer, const std::string& name, const std::string& kind) {
  for (const StateTensor& each : optimizer.state()) {
    if (each.name == name && each.kind == kind) return each.view;
  }
  return {};
}

// Every logical tensor stepped alone by the reference, from the same numbers.
template <class Real>
std::map<std::string, std::array<Tensor, 3>> reference_run(at::ScalarType type, int64_t steps) {
  std::map<std::string, std::array<Tensor, 3>> result;
  for (const auto& each : small_specs()) {
    const std::string& name = each.tensor.name;
    const Tensor w = random_tensor(each.tensor.global_shape, seed_of(name, 0), type);
    const Tensor m = at::zeros_like(w), v = at::zeros_like(w);
    const auto span = [](const Tensor& t) {
      return std::span<Real>(t.mutable_data_ptr<Real>(), static_cast<size_t>(t.numel()));
    };
    for (int64_t step = 1; step <= steps; ++step) {
      const Tensor g =
          random_tensor(each.tensor.global_shape, seed_of(name, static_cast<uint64_t>(step)), type);
      const recipe::OptimOptions o = options_for_tests();
      kernels::adamw_reference<Real>(span(w), span(m), span(v), span(g),
                                     {.lr = settings_of(step).lr,
                                      .beta1 = o.beta1,
                                      .beta2 = o.beta2,
                                      .eps = o.eps,
                                      .weight_decay = each.decay ? o.weight_decay : 0,
                                      .gradient_scale = 0.125,
                                      .t = step});
    }
    result[name] = {w, m, v};
  }
  return result;
}

template <class Real>
void compare_with_reference(const std::string& dtype, AdamwImplementation implementation, double tolerance) {
  const Precision precision = Precision::named(dtype);
  model::ParameterSet set = fused_set(precision);
  fill_values(set);
  AdamW optimizer(options_for_tests(), {set, precision}, implementation);
  run_steps(set, optimizer, 7);
  for (const auto& [name, expected] : reference_run<Real>(precision.master, 7)) {
    EXPECT_LT(relative_error(state_of(optimizer, name, "master"), expected[0]), tolerance) << name;
    EXPECT_LT(relative_error(state_of(optimizer, name, "m"), expected[1]), tolerance) << name;
    EXPECT_LT(relative_error(state_of(optimizer, name, "v"), expected[2]), tolerance) << name;
  }
}

// The gradients and values of docs/sources/optimizers.md §12: wd 1e-2 and β (0.9, 0.999), after three steps.
TEST(AdamwReference, GoldenVector) {
  std::vector<double> w{0.5, -0.25, 0.125, -1, 0.75, 0.3}, m(6), v(6);
  const std::vector<std::vector<double>> gradients{
      {0.1, -0.2, 0.3, -0.4, 0.5, -0.6}, {0.2, 0.1, -0.3, 0.05, -0.15, 0.25}, {-0.1, 0.4, 0.2, 0.3, 0, -0.5}};
  for (int64_t t = 1; t <= 3; ++t) {
    kernels::adamw_reference<double>(
        w, m, v, gradients[static_cast<size_t>(t - 1)],
        {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .weight_decay = 1e-2, .t = t});
  }
  const std::vector<double> expected{0.476000269,  -0.241837222, 0.113133138,
                                     -0.984244398, 0.732191683,  0.319160598};
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(w[i], expected[i], 1e-9) << i;
}

// By hand: after one step m̂ = g and v̂ = g², so w = w0 (1 − lr λ) − lr g / (|g| + ε), whatever the betas.
TEST(AdamwReference, FirstStepByHand) {
  std::vector<double> w{2.0, -1.0, 3.0}, m(3), v(3);
  const std::vector<double> g{0.5, -4.0, 0.0};
  kernels::adamw_reference<double>(w, m, v, g, {.lr = 0.1, .eps = 1.0, .weight_decay = 0.5, .t = 1});
  EXPECT_DOUBLE_EQ(w[0], 2.0 * 0.95 - 0.1 * 0.5 / 1.5);
  EXPECT_DOUBLE_EQ(w[1], -1.0 * 0.95 + 0.1 * 4.0 / 5.0);
  EXPECT_DOUBLE_EQ(w[2], 3.0 * 0.95);
  EXPECT_DOUBLE_EQ(m[0], (1 - 0.9) * 0.5);
  EXPECT_DOUBLE_EQ(v[1], (1 - 0.95) * 16);
}

TEST(Adamw, FusedEqualsReference) {
  compare_with_reference<double>("fp64", AdamwImplementation::kFused, 1e-14);
  compare_with_reference<float>("fp32", AdamwImplementation::kFused, 1e-6);
}

TEST(Adamw, TensorOperationsEqualReference) {
  compare_with_reference<double>("fp64", AdamwImplementation::kTensorOperations, 1e-14);
  compare_with_reference<float>("fp32", AdamwImplementation::kTensorOperations, 1e-6);
}

// With a constant gradient and no ε, m̂ = g and v̂ = g² at every step, so with decay the weight follows
// w_t = (w_0 + s/λ') (1 − λ')^t − s/λ', λ' = lr λ, s = lr · sign(g).
TEST(Adamw, ConstantGradientClosedForm) {
  model::ParameterSet set({spec("w", {64}, true)}, Precision::named("fp64"), at::kCPU);
  model::Parameter& w = set.add_stacked("w", {"w"});
  set.allocate();
  const Tensor start = random_tensor({64}, 5), gradient = random_tensor({64}, 6);
  w.value.detach().copy_(start);
  recipe::OptimOptions options = options_for_tests();
  options.eps = 1e-300;
  AdamW optimizer(options, {set, Precision::named("fp64")});
  for (int i = 0; i < 50; ++i) {
    w.grad.copy_(gradient);
    optimizer.step({.lr = 1e-2});
  }
  const double shrink = 1e-2 * options.weight_decay;
  const Tensor fixed = gradient.sign() * (1e-2 / shrink);
  EXPECT_LT(relative_error(w.value, (start + fixed) * std::pow(1 - shrink, 50) - fixed), 1e-12);
}

TEST(Adamw, WorkingCopyIsMasterRounded) {
  for (const auto implementation : {AdamwImplementation::kFused, AdamwImplementation::kTensorOperations}) {
    const Precision precision = Precision::named("bf16");
    model::ParameterSet set = fused_set(precision);
    fill_values(set);
    AdamW optimizer(options_for_tests(), {set, precision}, implementation);
    run_steps(set, optimizer, 3);
    for (const auto& each : set.specs()) {
      const Tensor master = state_of(optimizer, each.tensor.name, "master");
      EXPECT_EQ(master.scalar_type(), at::kFloat);
      const auto copy_type = each.tensor.name == "norm" ? at::kFloat : at::kBFloat16;
      EXPECT_TRUE(same_bits(value_of(set, each.tensor.name), master.to(copy_type))) << each.tensor.name;
      EXPECT_FALSE(at::equal(master.to(at::kBFloat16).to(at::kFloat), master))
          << "the master holds no more than bf16";
    }
  }
}

// A step size of 0 leaves the master alone, so the working copy shows the rounding itself: ties to even,
// overflow, infinities, NaN, subnormals.
TEST(Adamw, Bf16RoundingOfSpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor special =
      at::tensor({1.0f, 1.00390625f, 1.01171875f, 1.00390637f, -1.00390625f, 3.4028235e38f, infinity,
                  -infinity, 1e-40f, -0.0f, 0.1f, std::numeric_limits<float>::quiet_NaN()});
  longhaul::testing::for_each_instruction_set([&] {
    Tensor master = special.clone(), m = at::zeros({12}), v = at::zeros({12}), g = at::zeros({12});
    Tensor copy = at::zeros({12}, at::kBFloat16);
    kernels::element_loops().adamw_fp32(master.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(),
                                        g.data_ptr<float>(), static_cast<uint16_t*>(copy.data_ptr()), 12, {});
    EXPECT_TRUE(same_bits(copy.narrow(0, 0, 11), special.to(at::kBFloat16).narrow(0, 0, 11))) << copy;
    EXPECT_TRUE(std::isnan(copy[11].item<float>()));
  });
  EXPECT_EQ(special.to(at::kBFloat16)[1].item<float>(), 1.0f) << "the oracle rounds ties to even";
}

TEST(Adamw, FusingTensorsChangesNoBit) {
  for (const char* dtype : {"bf16", "fp32", "fp64"}) {
    const Precision precision = Precision::named(dtype);
    model::ParameterSet fused = fused_set(precision), unfused = unfused_set(precision);
    fill_values(fused);
    fill_values(unfused);
    AdamW fused_optimizer(options_for_tests(), {fused, precision}),
        unfused_optimizer(options_for_tests(), {unfused, precision});
    run_steps(fused, fused_optimizer, 4);
    run_steps(unfused, unfused_optimizer, 4);
    for (const auto& each : small_specs()) {
      EXPECT_TRUE(same_bits(value_of(fused, each.tensor.name), value_of(unfused, each.tensor.name)))
          << each.tensor.name;
      EXPECT_TRUE(same_bits(state_of(fused_optimizer, each.tensor.name, "v"),
                            state_of(unfused_optimizer, each.tensor.name, "v")));
    }
  }
}

TEST(Adamw, DecayOnlyWhereAsked) {
  const Precision precision = Precision::named("fp64");
  model::ParameterSet set = fused_set(precision);
  fill_values(set);
  std::map<std::string, Tensor> before;
  for (const auto& each : set.specs()) before[each.tensor.name] = value_of(set, each.tensor.name).clone();
  AdamW optimizer(options_for_tests(), {set, precision});
  set.zero_gradients();
  optimizer.step({.lr = 0.5});  // without gradients only decay moves weights
  for (const auto& each : set.specs()) {
    const double kept = each.decay ? 1 - 0.5 * 0.1 : 1.0;
    EXPECT_TRUE(at::equal(value_of(set, each.tensor.name), before[each.tensor.name] * kept))
        << each.tensor.name;
  }
}

TEST(Adamw, ThreadsAndInstructionSetsChangeNoBit) {
  for (const char* dtype : {"bf16", "fp32", "fp64"}) {
    const Precision precision = Precision::named(dtype);
    std::vector<Tensor> results;
    for (const int count : {1, 2, 3, 7}) {
      set_threads(count);
      model::ParameterSet set = fused_set(precision);
      fill_values(set);
      AdamW optimizer(options_for_tests(), {set, precision});
      run_steps(set, optimizer, 3);
      std::vector<Tensor> all;
      for (const StateTensor& each : optimizer.state()) all.push_back(each.view.reshape({-1}).clone());
      results.push_back(at::cat(all));
      EXPECT_TRUE(same_bits(results.back(), results.front())) << count << " threads, " << dtype;
    }
    set_threads(0);
  }
  const Tensor w = random_tensor({1003}, 1, at::kFloat), g = random_tensor({1003}, 2, at::kFloat);
  std::vector<Tensor> weights, doubles;
  longhaul::testing::for_each_instruction_set([&] {
    const kernels::ElementLoops& loops = kernels::element_loops();
    Tensor master = w.clone(), m = at::zeros_like(w), v = at::zeros_like(w), grad = g.clone();
    Tensor master64 = w.to(at::kDouble), m64 = at::zeros_like(master64), v64 = at::zeros_like(master64),
           grad64 = g.to(at::kDouble);
    const kernels::AdamwScalars scalars{
        .gradient_scale = 0.7, .kept_weight = 0.99, .step_size = 0.01, .zero_gradient = false};
    for (int i = 0; i < 3; ++i) {
      loops.adamw_fp32(master.data_ptr<float>(), m.data_ptr<float>(), v.data_ptr<float>(),
                       grad.data_ptr<float>(), nullptr, 1003, scalars);
      loops.adamw_fp64(master64.data_ptr<double>(), m64.data_ptr<double>(), v64.data_ptr<double>(),
                       grad64.data_ptr<double>(), nullptr, 1003, scalars);
    }
    weights.push_back(master);
    doubles.push_back(master64);
    EXPECT_TRUE(same_bits(weights.back(), weights.front()));
    EXPECT_TRUE(same_bits(doubles.back(), doubles.front()));
    EXPECT_TRUE(at::equal(grad, g)) << "the gradient was to be kept";
  });
}

TEST(Adamw, ZeroesGradientsWhenAskedAndRaisesVersions) {
  for (const auto implementation : {AdamwImplementation::kFused, AdamwImplementation::kTensorOperations}) {
    model::ParameterSet set = fused_set(Precision::named("fp32"));
    fill_values(set);
    AdamW optimizer(options_for_tests(), {set, Precision::named("fp32")}, implementation);
    fill_gradients(set, 1);
    const uint64_t version = set.all()[0]->version;
    optimizer.step({.lr = 1e-3, .zero_gradients = false});
    for (const auto& parameter : set.all())
      EXPECT_GT(parameter->grad.abs().max().item<float>(), 0) << parameter->name;
    optimizer.step({.lr = 1e-3});
    for (const auto& parameter : set.all()) {
      EXPECT_EQ(parameter->grad.abs().max().item<float>(), 0) << parameter->name;
      EXPECT_EQ(parameter->version, version + 2);
    }
    EXPECT_EQ(optimizer.steps(), 2);
  }
}

// The step leaves packed copies that are in use as packing the new weights would, and the next product packs
// nothing.
TEST(Adamw, PacksWhatItWrote) {
  for (const char* dtype : {"bf16", "fp32"}) {
    const Precision precision = Precision::named(dtype);
    for (const int count : {1, 3}) {
      set_threads(count);
      model::ParameterSet set = fused_set(precision);
      fill_values(set);
      AdamW optimizer(options_for_tests(), {set, precision});
      run_steps(set, optimizer, 1);
      const auto products = [](model::Parameter& parameter, kernels::PackedWeight& copies) {
        const Tensor& w = parameter.value;
        const std::vector<int64_t> rows(w.dim() == 3 ? static_cast<size_t>(w.size(0)) : 1, 4);
        const auto rows_in_all = static_cast<int64_t>(rows.size()) * 4;
        return std::array{
            kernels::packed_output(random_tensor({rows_in_all, w.size(-1)}, 1, w.scalar_type()), rows, w,
                                   Tensor(), copies, parameter.version),
            kernels::packed_input_gradient(random_tensor({rows_in_all, w.size(-2)}, 2, w.scalar_type()), rows,
                                           w, copies, parameter.version)};
      };
      const at::NoGradGuard guard;
      for (const auto& parameter : set.all()) {
        if (parameter->value.dim() > 1) products(*parameter, parameter->packed);
      }
      run_steps(set, optimizer, 2);
      for (const auto& parameter : set.all()) {
        if (parameter->value.dim() == 1) continue;
        SCOPED_TRACE(parameter->name);
        const int64_t packings = parameter->packed.packings();
        kernels::PackedWeight whole;
        const auto found = products(*parameter, parameter->packed), expected = products(*parameter, whole);
        EXPECT_TRUE(at::equal(found[0], expected[0]) && at::equal(found[1], expected[1]));
        // Experts' gate decays and up does not: two pieces, whose rows are packed when they are asked for.
        EXPECT_EQ(parameter->packed.packings() - packings, parameter->name == "experts" ? 2 : 0);
      }
      set_threads(0);
    }
  }
}

TEST(Adamw, FrozenTensorsStay) {
  const Precision precision = Precision::named("fp32");
  model::ParameterSet set(
      {spec("a", {3, 4}, true), spec("frozen.part", {2, 4}, true, false), spec("frozen.whole", {5}, true)},
      precision, at::kCPU);
  set.add_stacked("a", {"a", "frozen.part"});
  set.add_stacked("frozen.whole", {"frozen.whole"});
  set.allocate();
  set.freeze([](const model::Parameter& parameter) { return parameter.name == "frozen.whole"; });
  fill_values(set);
  const Tensor part = value_of(set, "frozen.part").clone(), whole = value_of(set, "frozen.whole").clone(),
               a = value_of(set, "a").clone();
  AdamW optimizer(options_for_tests(), {set, precision});
  run_steps(set, optimizer, 2);
  EXPECT_TRUE(at::equal(value_of(set, "frozen.part"), part));
  EXPECT_TRUE(at::equal(value_of(set, "frozen.whole"), whole));
  EXPECT_FALSE(at::equal(value_of(set, "a"), a));
  EXPECT_EQ(grad_of(set, "a").abs().max().item<float>(), 0);
  EXPECT_EQ(grad_of(set, "frozen.part").abs().max().item<float>(), 0);
  EXPECT_FALSE(set.holder_of("frozen.whole")->grad.defined());
  EXPECT_TRUE(state_of(optimizer, "frozen.whole", "master").defined());
  EXPECT_FALSE(state_of(optimizer, "frozen.whole", "m").defined());
}

// What a checkpoint does: copy the state out, put it into a new optimizer, go on: the same bits as without
// the stop.
TEST(Adamw, StateMovesToANewOptimizer) {
  for (const char* dtype : {"bf16", "fp32"}) {
    const Precision precision = Precision::named(dtype);
    model::ParameterSet through = fused_set(precision), resumed = unfused_set(precision);
    fill_values(through);
    AdamW first(options_for_tests(), {through, precision});
    run_steps(through, first, 2);
    AdamW second(options_for_tests(), {resumed, precision});
    for (const StateTensor& each : first.state()) state_of(second, each.name, each.kind).copy_(each.view);
    second.set_steps(first.steps());
    second.refresh_values();
    for (uint64_t step = 11; step < 14; ++step) {
      for (auto* pair : {&through, &resumed}) fill_gradients(*pair, step);
      first.step({.lr = 3e-3});
      second.step({.lr = 3e-3});
    }
    for (const auto& each : small_specs()) {
      EXPECT_TRUE(same_bits(value_of(through, each.tensor.name), value_of(resumed, each.tensor.name)))
          << each.tensor.name << " " << dtype;
    }
    EXPECT_EQ(first.state().size(), 3 * small_specs().size());
  }
}

TEST(Adamw, MasterIsTheValueWhereDtypesAgree) {
  model::ParameterSet set = fused_set(Precision::named("fp32"));
  fill_values(set);
  AdamW optimizer(options_for_tests(), {set, Precision::named("fp32")});
  EXPECT_EQ(state_of(optimizer, "key", "master").data_ptr(), value_of(set, "key").data_ptr());
  model::ParameterSet narrow = fused_set(Precision::named("bf16"));
  AdamW with_copy(options_for_tests(), {narrow, Precision::named("bf16")});
  fill_values(narrow);
  EXPECT_EQ(state_of(with_copy, "key", "master").abs().max().item<float>(), 0);
  with_copy.take_masters_from_values();
  EXPECT_TRUE(at::equal(state_of(with_copy, "key", "master"), value_of(narrow, "key").to(at::kFloat)));
}

TEST(Adamw, RefusesWhatItCannotDo) {
  model::ParameterSet set = fused_set(Precision::named("fp32"));
  recipe::OptimOptions options = options_for_tests();
  options.name = "adamx";
  const auto code_of = [](const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code_of([&] { make_optimizer(options, set, Precision::named("fp32")); }), ExitCode::kUsage);
  EXPECT_EQ(code_of([&] { make_optimizer(options_for_tests(), set, {.state = at::kBFloat16}); }),
            ExitCode::kUsage);
  EXPECT_EQ(make_optimizer(options_for_tests(), set, Precision::named("fp32"))->steps(), 0);
}

}  // namespace
}  // namespace longhaul::optim
