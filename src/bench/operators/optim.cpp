// Benchmarks of the optimizer's loops: AdamW with clipping, zeroing of the gradient and refresh of the bf16
// weights in one pass, and the gradient norm's sum of squares. Every instruction set's loop must give the
// bits of the others (tests/optim); here the first elements are compared with the reference. AdamW's peer,
// LibTorch's fused step, works on the same tensors in turns with it, and so does a copy, whose rate is the
// limit ("copy_share"). Whole steps of every optimizer: on few large matrices, and on the matrices of
// first-run beside a training step.
#include <ATen/ops/_fused_adamw.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/clock.h"
#include "base/threads/parallel.h"
#include "bench/models/train.h"
#include "bench/register.h"
#include "kernels/adamw/op.h"
#include "optim/optimizers/adamw.h"
#include "recipe/optimizers/optimizers.h"
#include "recipe/sections/optim_groups.h"

namespace longhaul::bench {
namespace {

constexpr int64_t kElements = int64_t{1} << 24, kGrain = 1 << 14;

struct State {
  Tensor w = at::randn({kElements}), m = at::randn({kElements}).mul_(0.01),
         v = at::rand({kElements}).mul_(0.01), g = at::randn({kElements});
  Tensor value = w.to(at::kBFloat16);
};

double adamw_error(const kernels::AdamwScalars& scalars) {
  constexpr size_t kChecked = 1000;
  State state;
  const auto copy = [&](const Tensor& t) {
    return std::vector<float>(t.const_data_ptr<float>(), t.const_data_ptr<float>() + kChecked);
  };
  std::vector<float> w = copy(state.w), m = copy(state.m), v = copy(state.v);
  const std::vector<float> g = copy(state.g);
  kernels::element_loops().adamw_fp32(state.w.data_ptr<float>(), state.m.data_ptr<float>(),
                                      state.v.data_ptr<float>(), state.g.data_ptr<float>(),
                                      static_cast<uint16_t*>(state.value.data_ptr()), kElements, scalars);
  const double lr = 1e-3;
  kernels::adamw_reference<float>(w, m, v, g,
                                  {.lr = lr,
                                   .beta1 = scalars.beta1,
                                   .beta2 = scalars.beta2,
                                   .eps = scalars.eps,
                                   .weight_decay = (1 - scalars.kept_weight) / lr,
                                   .gradient_scale = scalars.gradient_scale,
                                   .t = 10});
  double worst = 0;
  for (size_t i = 0; i < kChecked; ++i)
    worst = std::max(worst, static_cast<double>(std::abs(state.w.const_data_ptr<float>()[i] - w[i])));
  return worst;
}

// Weights of one layer of a small model, as it would hold them.
std::unique_ptr<model::ParameterSet> set_of(int64_t weights, int64_t out, int64_t in,
                                            const Precision& precision) {
  std::vector<layout::ParameterSpec> specs;
  for (int64_t i = 0; i < weights; ++i) {
    layout::ParameterSpec spec;
    spec.tensor = {fmt::format("w{}", i), {out, in}, layout::Role::kChannelUp};
    spec.layer = 0, spec.decay = true;
    specs.push_back(spec);
  }
  auto set = std::make_unique<model::ParameterSet>(specs, precision, at::kCPU);
  for (const auto& spec : specs) set->add_stacked(spec.tensor.name, {spec.tensor.name});
  set->allocate();
  for (const auto& parameter : set->all()) parameter->value.detach().copy_(at::randn({out, in}).mul_(0.02));
  return set;
}

// A whole step of AdamW on weights that products keep packed, with the copies packed in the step;
// `milliseconds_lazy`: with copies that are made when they are next asked for, after the step.
Result adamw_with_packing(double error) {
  constexpr int64_t kWeights = 8, kOut = 3072, kIn = 768;  // as GPT-2 124M's
  const Precision precision = Precision::named("bf16");
  const auto ask_for_copies = [](model::Parameter& parameter, kernels::PackedWeight& copies) {
    copies.for_output(parameter.value, parameter.version);
    copies.for_input_gradient(parameter.value, parameter.version);
  };
  const optim::StepSettings settings{.lr = 1e-3};
  const auto packing = set_of(kWeights, kOut, kIn, precision), lazy = set_of(kWeights, kOut, kIn, precision);
  optim::AdamW packing_optimizer({}, {*packing, precision}), lazy_optimizer({}, {*lazy, precision});
  std::vector<kernels::PackedWeight> lazy_copies(kWeights);
  const auto in_step = [&] {
    packing_optimizer.step(settings);
    for (const auto& parameter : packing->all()) ask_for_copies(*parameter, parameter->packed);
  };
  const auto after_step = [&] {
    lazy_optimizer.step(settings);
    for (size_t i = 0; i < lazy_copies.size(); ++i) ask_for_copies(*lazy->all()[i], lazy_copies[i]);
  };
  // Beside AdamW's 34 bytes of each element: two packed copies written.
  Result result{.name = "adamw_and_packing",
                .shape = fmt::format("{} x {}x{}", kWeights, kOut, kIn),
                .dtype = "bf16",
                .implementation = "packs in the step"};
  result.passes = {{"", time_of(in_step), 0, 38.0 * static_cast<double>(kWeights * kOut * kIn)}};
  result.figures.emplace_back("milliseconds_lazy", time_of(after_step).median);
  result.error = error;
  result.tolerance = 1e-6;
  return result;
}

// Two steps in fp32 beside the same in fp64, of the largest change.
double error_of_steps(const recipe::OptimOptions& options) {
  const Precision precisions[] = {Precision::named("fp32"), Precision::named("fp64")};
  const auto narrow = set_of(1, 70, 50, precisions[0]), wide = set_of(1, 70, 50, precisions[1]);
  const Tensor start = narrow->all()[0]->value.detach().to(at::kDouble);
  wide->all()[0]->value.detach().copy_(start);
  const auto first = optim::make_optimizer(options, *narrow, precisions[0]),
             second = optim::make_optimizer(options, *wide, precisions[1]);
  for (int step = 0; step < 2; ++step) {
    const Tensor g = at::randn({70, 50});
    narrow->all()[0]->grad.copy_(g), wide->all()[0]->grad.copy_(g);
    first->step({.lr = 1e-3}), second->step({.lr = 1e-3});
  }
  const Tensor expected = wide->all()[0]->value.detach();
  return ((narrow->all()[0]->value.detach() - expected).abs().max() / (expected - start).abs().max())
      .item<double>();
}

struct Stepped {
  std::string name;
  recipe::OptimOptions options;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::vector<double> milliseconds, shares_of_adamw;
};

std::vector<Stepped> all_stepped() {
  std::vector<Stepped> all;
  const auto add = [&](std::string_view name, recipe::StateDtype dtype, const char* suffix) {
    all.push_back(
        {.name = std::string(name) + suffix, .options = {.name = std::string(name), .state_dtype = dtype}});
  };
  for (const recipe::OptimizerEntry* entry : recipe::optimizers())
    add(entry->name, recipe::StateDtype::kFloat32, "");
  for (const char* name : {"adamw", "lamb", "lion", "came"}) {
    add(name, recipe::StateDtype::kBfloat16, "_bfloat16");
    add(name, recipe::StateDtype::kInt8, "_int8");
  }
  return all;
}

double median_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  return numbers[numbers.size() / 2];
}

Timing timing_of(const std::vector<double>& milliseconds) {
  return {median_of(milliseconds), *std::ranges::min_element(milliseconds),
          *std::ranges::max_element(milliseconds), static_cast<int64_t>(milliseconds.size())};
}

struct Matrices {
  int64_t count, out, in;
  std::string text() const { return fmt::format("{} x {}x{}", count, out, in); }
};

// A whole step of each of `all` on bf16 weights, in turns, so that whatever else the machine does meets all
// of them; "share_of_adamw": of AdamW's time (the first) in the same round, the median of rounds;
// "share_of_step": of a training step's milliseconds, where those are given.
void add_steps(std::vector<Stepped> all, const Matrices& matrices, int rounds, double training_step,
               Results& into) {
  const Precision precision = Precision::named("bf16");
  const auto set = set_of(matrices.count, matrices.out, matrices.in, precision);
  for (Stepped& each : all) each.optimizer = optim::make_optimizer(each.options, *set, precision);
  for (int round = 0; round <= rounds; ++round) {
    for (Stepped& each : all) {
      for (const auto& parameter : set->all()) parameter->grad.fill_(1e-3f);
      const Stopwatch watch;
      each.optimizer->step({.lr = 1e-3});
      if (round == 0) continue;  // the first finds pages and caches cold
      each.milliseconds.push_back(watch.milliseconds());
      each.shares_of_adamw.push_back(each.milliseconds.back() / all[0].milliseconds.back());
    }
  }
  const auto elements = static_cast<double>(matrices.out * matrices.in);
  const std::vector<int64_t> shape = {matrices.out, matrices.in};
  for (const Stepped& each : all) {
    const double state_bytes =
        static_cast<double>(recipe::state_bytes(each.options, layout::Role::kChannelUp, 0, shape, shape, 4)) /
        elements;
    Result result{
        .name = "step_" + each.name, .shape = matrices.text(), .dtype = "bf16", .implementation = "cpu"};
    // Gradient read and zeroed, master read and written, weights written; states read and written.
    result.passes = {{"", timing_of(each.milliseconds), 0,
                      (4 * 4 + 2 + 2 * state_bytes) * elements * static_cast<double>(matrices.count)}};
    result.figures.emplace_back("share_of_adamw", median_of(each.shares_of_adamw));
    result.figures.emplace_back("state_bytes_each", state_bytes);
    if (training_step > 0)
      result.figures.emplace_back("share_of_step", median_of(each.milliseconds) / training_step);
    recipe::OptimOptions wide = each.options;
    wide.state_dtype = recipe::StateDtype::kFloat32;
    result.error = error_of_steps(wide);
    result.tolerance = 1e-2;  // where signs and roots of small numbers differ
    into.push_back(std::move(result));
  }
}

// The matrices that first-run's layers have, beside one of its training steps, which is AdamW's and has
// everything else in it too.
void add_first_run(const Request& request, Results& into) {
  Result step = bench_train({.preset = "first-run", .batch = 2, .sequence = 512}, request.peak);
  std::vector<Stepped> some;
  for (const char* name : {"adamw", "came", "muon"})
    some.push_back({.name = name, .options = {.name = name}});
  add_steps(std::move(some), {133, 256, 256}, 5, step.passes[0].time.median, into);
  into.push_back(std::move(step));
}

// One of the forms that AdamW's loop and LibTorch's fused step are compared in. Bytes of an element that ours
// reads and writes.
struct AdamwForm {
  const char *name, *dtype;
  bool clipped_and_zeroed, copied;
  double bytes;
  const char* peer;
};
constexpr AdamwForm kAdamwForms[] = {
    {"adamw", "bf16", true, true, 34, "LibTorch: mul_, _fused_adamw_, zero_, copy_ to bf16"},
    {"adamw", "fp32", true, false, 32, "LibTorch: mul_, _fused_adamw_, zero_"},
    {"adamw_alone", "fp32", false, false, 28, "LibTorch _fused_adamw_"},
};

// Ours, a copy of 64 MiB, and the peer where it is asked for, in turns: "copy_share" is of the copy's bytes a
// second in the same round, "times_of_peer" how many of our steps fit into the peer's time in the same round;
// medians of rounds.
Result adamw_in_turns(const AdamwForm& form, const kernels::AdamwScalars& given, State& state, bool peer,
                      double error) {
  constexpr int kRounds = 9;
  const kernels::ElementLoops& loops = kernels::element_loops();
  kernels::AdamwScalars scalars = given;
  scalars.zero_gradient = form.clipped_and_zeroed;
  if (!form.clipped_and_zeroed) scalars.gradient_scale = 1;
  float *w = state.w.data_ptr<float>(), *m = state.m.data_ptr<float>(), *v = state.v.data_ptr<float>(),
        *g = state.g.data_ptr<float>();
  auto* value = form.copied ? static_cast<uint16_t*>(state.value.data_ptr()) : nullptr;
  const auto ours = [&] {
    parallel_for(0, kElements, kGrain, [&](int64_t begin, int64_t end) {
      loops.adamw_fp32(w + begin, m + begin, v + begin, g + begin, value == nullptr ? nullptr : value + begin,
                       end - begin, scalars);
    });
  };
  const Tensor steps = at::full({}, 10.0, at::kFloat);
  const auto theirs = [&] {
    if (form.clipped_and_zeroed) state.g.mul_(scalars.gradient_scale);
    at::_fused_adamw_({state.w}, {state.g}, {state.m}, {state.v}, {}, {steps}, /*lr=*/1e-3, scalars.beta1,
                      scalars.beta2, 0.1, scalars.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
    if (form.clipped_and_zeroed) state.g.zero_();
    if (form.copied) state.value.copy_(state.w);
  };
  const Tensor to = at::empty_like(state.w);
  const auto copy = [&] { to.copy_(state.w); };
  const auto timed = [&](const auto& work) {
    state.g.fill_(1e-3f);
    const Stopwatch watch;
    work();
    return watch.milliseconds();
  };
  const double copied_bytes = 8.0 * static_cast<double>(kElements),
               bytes = form.bytes * static_cast<double>(kElements);
  std::vector<double> own, others, copy_shares, times;
  for (int round = 0; round <= kRounds; ++round) {
    const double copying = timed(copy), mine = timed(ours), other = peer ? timed(theirs) : 0;
    if (round == 0) continue;
    own.push_back(mine);
    copy_shares.push_back((bytes / mine) / (copied_bytes / copying));
    if (peer) others.push_back(other), times.push_back(other / mine);
  }
  Result result{.name = form.name,
                .shape = fmt::format("{} Mi", kElements >> 20),
                .dtype = form.dtype,
                .implementation = std::string(loops.instruction_set)};
  result.passes = {{"", timing_of(own), 0, bytes}};
  result.figures.emplace_back("copy_share", median_of(copy_shares));
  if (peer) {
    result.peer = Peer{form.peer, {{"", timing_of(others), 0, bytes}}};
    result.figures.emplace_back("times_of_peer", median_of(times));
  }
  result.error = error;
  result.tolerance = 1e-6;
  return result;
}

}  // namespace

void bench_optim(const Request& request, Results& into) {
  const kernels::AdamwScalars scalars{.gradient_scale = 0.5,
                                      .beta1 = 0.9,
                                      .beta2 = 0.95,
                                      .kept_weight = 1 - 1e-3 * 0.1,
                                      .step_size = 1e-3 / (1 - std::pow(0.9, 10)),
                                      .inverse_root_correction = 1 / std::sqrt(1 - std::pow(0.95, 10))};
  const double error = adamw_error(scalars);
  State state;
  for (const AdamwForm& form : kAdamwForms)
    into.push_back(adamw_in_turns(form, scalars, state, request.peer, error));
  into.push_back(adamw_with_packing(error));
  const kernels::ElementLoops& loops = kernels::element_loops();
  const float* m = state.m.const_data_ptr<float>();
  const double expected = state.m.to(at::kDouble).square().sum().item<double>();
  Result norm{.name = "gradient_norm",
              .shape = fmt::format("{} Mi", kElements >> 20),
              .dtype = "fp32",
              .implementation = std::string(loops.instruction_set)};
  const auto sum = [&](int64_t begin, int64_t end) {
    volatile double part = loops.squares_fp32(m + begin, end - begin);
    static_cast<void>(part);
  };
  norm.passes = {{"", time_of([&] { parallel_for(0, kElements, kGrain, sum); }), 0,
                  4.0 * static_cast<double>(kElements)}};
  norm.error = std::abs(loops.squares_fp32(m, kElements) / expected - 1);
  norm.tolerance = 1e-6;
  into.push_back(std::move(norm));
  add_steps(all_stepped(), {4, 1536, 768}, 9, 0, into);
  add_first_run(request, into);
}

}  // namespace longhaul::bench
