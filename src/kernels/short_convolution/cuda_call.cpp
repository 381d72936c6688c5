#include "kernels/short_convolution/cuda_call.h"

#include "kernels/cuda/tensors.h"
#include "kernels/short_convolution/cuda.h"

namespace longhaul::kernels {
namespace {

static_assert(cuda::kMostConvolutionTaps == kMostConvolutionTaps);

cuda::Convolution convolution_call(const ConvolutionProblem& problem, const cuda::Table<int64_t>& offsets) {
  return {.tokens = problem.x_tc.size(0),
          .channels = problem.channels(),
          .documents = problem.documents(),
          .taps = static_cast<int>(problem.width()),
          .silu = problem.options.silu,
          .x = cuda::bf16(problem.x_tc),
          .x_stride = problem.x_tc.stride(0),
          .weight = cuda::fp32(problem.weight_wc),
          .bias = cuda::fp32(problem.bias_c),
          .initial = cuda::bf16(problem.initial_state_nwc),
          .offsets = offsets.data()};
}

ShortConvolutionResult forward(const ConvolutionProblem& problem) {
  const cuda::OnDevice device(problem.x_tc);
  const cuda::Table offsets(problem.offsets, problem.x_tc);
  const at::TensorOptions options = problem.x_tc.options().requires_grad(false);
  const ShortConvolutionResult result{
      at::empty({problem.x_tc.size(0), problem.channels()}, options),
      at::empty({problem.documents(), problem.width() - 1, problem.channels()}, options)};
  cuda::convolution_forward(convolution_call(problem, offsets), cuda::bf16_out(result.y_tc),
                            cuda::bf16_out(result.final_state_nwc), device.stream());
  return result;
}

ConvolutionGradients backward(const ConvolutionProblem& problem, const Tensor& dy, const Tensor& d_final) {
  const cuda::OnDevice device(problem.x_tc);
  const cuda::Table offsets(problem.offsets, problem.x_tc);
  const cuda::Convolution call = convolution_call(problem, offsets);
  const Tensor d_y = dy.contiguous(), d_state = cuda::contiguous(d_final),
               partial = cuda::workspace(cuda::convolution_workspace_bytes(call), d_y);
  const bool has_bias = problem.bias_c.defined();
  const Tensor sums = at::zeros({problem.width() + (has_bias ? 1 : 0), problem.channels()},
                                problem.weight_wc.options().requires_grad(false));
  ConvolutionGradients gradients{.x_tc = at::empty_like(d_y),
                                 .weight_wc = sums.narrow(0, 0, problem.width())};
  if (has_bias) gradients.bias_c = sums.select(0, problem.width());
  if (problem.initial_state_nwc.defined()) {  // a document without tokens hands the gradient of its state on
    gradients.initial_state_nwc =
        d_state.defined() ? d_state.clone() : at::zeros_like(problem.initial_state_nwc);
  }
  cuda::convolution_backward(call,
                             {.d_y = cuda::bf16(d_y),
                              .d_final = cuda::bf16(d_state),
                              .d_x = cuda::bf16_out(gradients.x_tc),
                              .d_initial = cuda::bf16_out(gradients.initial_state_nwc),
                              .sums = cuda::fp32_out(sums),
                              .partial = static_cast<float*>(partial.mutable_data_ptr())},
                             device.stream());
  return gradients;
}

const CudaCalls<ConvolutionCuda> registered({{.forward = forward, .backward = backward}});

}  // namespace
}  // namespace longhaul::kernels
