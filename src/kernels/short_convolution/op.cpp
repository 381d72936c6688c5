#include "kernels/short_convolution/op.h"

#include <fmt/format.h>

#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/operator_clock.h"
#include "kernels/short_convolution/cpu.h"
#include "kernels/short_convolution/cuda_call.h"
#include "kernels/vector/tensors.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kConvolutionOp = "short_convolution";

void check_convolution_weight(const Tensor& x, const Tensor& weight, const char* argument,
                              std::vector<int64_t> sizes) {
  const bool typed =
      weight.defined() && (weight.scalar_type() == x.scalar_type() || weight.scalar_type() == wide_type(x));
  if (typed && weight.sizes() == at::IntArrayRef(sizes) && weight.device() == x.device()) return;
  refuse_argument(kConvolutionOp, argument,
                  fmt::format("[{}, …] {} or {} on the device of x", sizes[0], name_of(x.scalar_type()),
                              name_of(wide_type(x))),
                  shape_text(weight));
}

ConvolutionProblem convolution_problem(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                       const Tensor& offsets, const Tensor& initial_state,
                                       const ShortConvolutionOptions& options) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf)
    refuse_argument(kConvolutionOp, "x", "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
  const int64_t channels = x.size(1);
  if (!weight.defined() || weight.dim() != 2 || weight.size(1) < 1 || weight.size(1) > kMostConvolutionTaps) {
    refuse_argument(kConvolutionOp, "weight", fmt::format("[{}, 1 to {}]", channels, kMostConvolutionTaps),
                    shape_text(weight));
  }
  const int64_t width = weight.size(1);
  check_convolution_weight(x, weight, "weight", {channels, width});
  if (bias.defined()) check_convolution_weight(x, bias, "bias", {channels});
  const std::vector<int64_t> boundaries = document_offsets(offsets, x.size(0), kConvolutionOp);
  if (initial_state.defined()) {
    const std::vector<int64_t> sizes{static_cast<int64_t>(boundaries.size()) - 1, width - 1, channels};
    if (initial_state.sizes() != at::IntArrayRef(sizes) || initial_state.scalar_type() != x.scalar_type() ||
        initial_state.device() != x.device()) {
      refuse_argument(kConvolutionOp, "initial_state",
                      fmt::format("[{}, {}, {}] {} on the device of x", sizes[0], sizes[1], sizes[2],
                                  name_of(x.scalar_type())),
                      shape_text(initial_state));
    }
  }
  const auto wide = [&](const Tensor& w) { return w.defined() ? w.to(wide_type(x)) : w; };
  const Tensor rows = x.numel() == 0 || x.stride(1) == 1 ? x : x.contiguous();
  return {rows,       wide(weight).t().contiguous(),
          wide(bias), initial_state.defined() ? initial_state.contiguous() : initial_state,
          boundaries, options};
}

// By LibTorch's operators: the rows of zeros, states and x below one another, of which every tap takes its
// own.
ShortConvolutionResult convolution_by_aten(const ConvolutionProblem& problem) {
  const int64_t history = problem.width() - 1, tokens = problem.x_tc.size(0), documents = problem.documents(),
                channels = problem.channels();
  const bool states = problem.initial_state_nwc.defined();
  const Tensor zeros = at::zeros({1, channels}, problem.x_tc.options().requires_grad(false));
  std::vector<Tensor> rows{zeros, problem.x_tc};
  if (states) rows.push_back(problem.initial_state_nwc.reshape({documents * history, channels}));
  const Tensor all = at::cat(rows);
  const auto row_of = [&](int64_t n, int64_t position) {
    if (position >= 0) return 1 + problem.offsets[static_cast<size_t>(n)] + position;
    return states ? 1 + tokens + n * history + history + position : 0;
  };
  std::vector<std::vector<int64_t>> taps(static_cast<size_t>(history + 1));
  std::vector<int64_t> kept;
  for (int64_t n = 0; n < documents; ++n) {
    const int64_t length =
        problem.offsets[static_cast<size_t>(n) + 1] - problem.offsets[static_cast<size_t>(n)];
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t j = 0; j <= history; ++j)
        taps[static_cast<size_t>(j)].push_back(row_of(n, t - history + j));
    }
    for (int64_t i = 0; i < history; ++i) kept.push_back(row_of(n, length - history + i));
  }
  const auto taken = [&](const std::vector<int64_t>& which) {
    return all.index_select(0, to_tensor(which, all.device()));
  };
  Tensor z = problem.bias_c.defined() ? problem.bias_c.expand({tokens, channels})
                                      : at::zeros({1, channels}, problem.weight_wc.options());
  for (size_t j = 0; j < taps.size(); ++j)
    z = z + taken(taps[j]) * problem.weight_wc[static_cast<int64_t>(j)];
  return {(problem.options.silu ? at::silu(z) : z).to(problem.x_tc.scalar_type()),
          taken(kept).view({documents, history, channels})};
}

// Forward and backward of one implementation, joined by autograd.
ShortConvolutionResult convolution_by(const ConvolutionForm& form, const ConvolutionProblem& problem) {
  const std::vector<Tensor> inputs{problem.x_tc, problem.weight_wc, problem.bias_c,
                                   problem.initial_state_nwc};
  const double flops = 2.0 * static_cast<double>(problem.x_tc.numel() * problem.width());
  const auto made = differentiable(kConvolutionOp, inputs, [&]() -> Recorded {
    count_flops(flops);
    const ShortConvolutionResult result = form.forward(problem);
    return {
        .results = {result.y_tc, result.final_state_nwc},
        .saved = inputs,
        .backward =
            [form, flops, offsets = problem.offsets, options = problem.options](const BackwardCall& call) {
              const ConvolutionProblem saved{call.saved[0], call.saved[1], call.saved[2],
                                             call.saved[3], offsets,       options};
              const Tensor dy =
                  call.gradients[0].defined() ? call.gradients[0].contiguous() : at::zeros_like(saved.x_tc);
              count_flops(2 * flops);
              const auto d = form.backward(saved, dy, call.gradients[1]);
              return std::vector<Tensor>{d.x_tc, d.weight_wc, d.bias_c, d.initial_state_nwc};
            },
        .zeros_for_missing = false,
        .cheap = {
            {result.y_tc, inputs,
             [form, offsets = problem.offsets, options = problem.options](const std::vector<Tensor>& from) {
               return form.forward({from[0], from[1], from[2], from[3], offsets, options}).y_tc;
             }}}};
  });
  return {made[0], made[1]};
}

}  // namespace

ShortConvolutionResult short_convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                         const Tensor& offsets, const Tensor& initial_state,
                                         const ShortConvolutionOptions& options) {
  const ConvolutionProblem problem = convolution_problem(x, weight, bias, offsets, initial_state, options);
  switch (choose_by_device(kConvolutionOp, x, refuse_cuda(x))) {
    case ByDevice::kMeta: {
      const auto results =
          meta_results({x, weight, bias, initial_state},
                       {{x.sizes().vec(), x.scalar_type()},
                        {{problem.documents(), problem.width() - 1, problem.channels()}, x.scalar_type()}});
      return {results[0], results[1]};
    }
    case ByDevice::kCuda:
      return convolution_by(cuda_calls<ConvolutionCuda>(), problem);
    case ByDevice::kCpu:
      return convolution_by({convolution_forward_cpu, convolution_backward_cpu}, problem);
    default:
      return convolution_by_aten(problem);
  }
}

Tensor short_convolution_continued(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   const ConvolutionStates& states, const Tensor& offsets,
                                   const ShortConvolutionOptions& options) {
  const at::NoGradGuard no_gradient;
  const Tensor rows = to_tensor(states.rows, x.device());
  const auto result =
      short_convolution(x, weight, bias, offsets, states.state_swc.index_select(0, rows), options);
  Tensor(states.state_swc).index_copy_(0, rows, result.final_state_nwc);
  return result.y_tc;
}

ShortConvolutionResult short_convolution_aten(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                              const Tensor& offsets, const Tensor& initial_state,
                                              const ShortConvolutionOptions& options) {
  return convolution_by_aten(convolution_problem(x, weight, bias, offsets, initial_state, options));
}

}  // namespace longhaul::kernels
