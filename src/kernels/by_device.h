// The choice of an operator that has one implementation for each kind of device:
//
//   cuda  our kernels on a GPU (kernels/cuda/calls.h)
//   cpu   our vector loops, for CPU tensors
//   meta  shapes and dtypes only, of results and of gradients
//   aten  LibTorch's operators under autograd, for tensors of any device
//
// aten does not wait for a device; where an operator has to, its header says so.
#pragma once

#include <vector>

#include "kernels/dispatch.h"
#include "kernels/gradient_sink.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

enum class ByDevice : size_t { kCuda, kCpu, kMeta, kAten };
inline constexpr Refusal kNotOnCpu = "the tensors are not on the CPU", kNotMeta = "the tensors hold data";

// Chooses for an operator whose first argument is x; recorded under `op`, a literal. `cuda_refusal`, `cpu_refusal`: why
// they do not take it, if they do not.
ByDevice choose_by_device(const char* op, const Tensor& x, Refusal cuda_refusal, Refusal cpu_refusal = {});

struct MetaResult {
  std::vector<int64_t> sizes;
  ScalarType type;
};
// Meta tensors, through which each of `inputs` (some may be undefined) gets a gradient of its own shape. `sinks`: those to which the backward pass
// would add, which learn that it came.
std::vector<Tensor> meta_results(const std::vector<Tensor>& inputs, const std::vector<MetaResult>& results,
                                 const std::vector<GradientSink>& sinks = {});

// `value`, whose gradient is added to `sink` instead of travelling on; without a sink it has none.
Tensor with_gradient_to(const Tensor& value, const GradientSink& sink);

}  // namespace longhaul::kernels
