#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "bench/register.h"
#include "kernels/linear_recurrence/op.h"
#include "tensor/random_fill.h"

namespace longhaul::bench {
namespace {

struct Inputs {
  Tensor q_thk, k_thk, v_thv, log_decay_h;
};

Inputs inputs_of(int64_t tokens, int64_t heads, int64_t width) {
  const auto filled = [&](const char* name) {
    const layout::Shape shape = {tokens, heads, width};
    Tensor tensor = at::empty(shape, at::kFloat);
    fill_normal(tensor, RandomStream(0, fmt::format("bench/linear_recurrence/{}", name)), 0.5, shape, layout::Rectangle::whole(shape));
    return tensor;
  };
  return {filled("q"), filled("k"), filled("v"), -at::exp2(-at::linspace(1, 8, heads, at::kFloat))};
}

double relative_difference(const Tensor& found, const Tensor& expected) { return ((found - expected).norm() / expected.norm()).item<double>(); }

// Values and gradients of the operator as dispatched against the reference's.
double error_of(const Inputs& inputs, const kernels::LinearRecurrenceOptions& options) {
  std::vector<Tensor> results[2];
  for (const bool reference : {false, true}) {
    std::vector<Tensor> leaves;
    for (const Tensor& each : {inputs.q_thk, inputs.k_thk, inputs.v_thv}) leaves.push_back(each.clone().requires_grad_());
    const auto call = reference ? &kernels::linear_recurrence_reference : &kernels::linear_recurrence;
    const Tensor o_thd = call(leaves[0], leaves[1], leaves[2], inputs.log_decay_h, Tensor(), Tensor(), options).o_thd;
    o_thd.square().sum().backward();
    results[reference] = {o_thd.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i) worst = std::max(worst, relative_difference(results[0][i], results[1][i]));
  return worst;
}

}  // namespace

void bench_linear_recurrence(const Request&, Results& into) {
  constexpr int64_t kHeads = 8, kWidth = 64;
  const kernels::LinearRecurrenceOptions options{.scale = 1.0 / 8};
  const double error = error_of(inputs_of(200, kHeads, kWidth), options);
  for (const int64_t tokens : {1024, 4096}) {
    Inputs inputs = inputs_of(tokens, kHeads, kWidth);
    for (const Tensor& each : {inputs.q_thk, inputs.k_thk, inputs.v_thv}) each.requires_grad_();
    const Tensor gradient = at::ones({tokens, kHeads, kWidth});
    Tensor o_thd;
    const auto forward = [&] {
      for (const Tensor& each : {inputs.q_thk, inputs.k_thk, inputs.v_thv}) each.mutable_grad() = Tensor();
      o_thd = kernels::linear_recurrence(inputs.q_thk, inputs.k_thk, inputs.v_thv, inputs.log_decay_h, Tensor(), Tensor(), options).o_thd;
    };
    // Two products of a [key, value] state with a vector, per token and head; five in the backward pass.
    const double flops = 4.0 * static_cast<double>(tokens * kHeads * kWidth * kWidth);
    Result result{.name = "linear_recurrence", .shape = fmt::format("T {} H {} D {}", tokens, kHeads, kWidth), .dtype = "fp32"};
    result.passes.push_back({"forward", time_of(forward), flops, 0});
    result.passes.push_back({"backward", time_of([&] { o_thd.backward(gradient); }, 0.5, forward), 2.5 * flops, 0});
    result.implementation = kernels::Dispatcher::last("linear_recurrence").chosen;
    result.error = error;
    result.tolerance = 1e-4;  // fp32 sums of 200 terms in another order
    into.push_back(result);
  }
}

}  // namespace longhaul::bench
