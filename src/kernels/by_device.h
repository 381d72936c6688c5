// Chooses the implementation of an operator that has one for each kind of device:
//
//   cuda  our kernels on a GPU (kernels/cuda/calls.h)
//   cpu   our vector loops, for CPU tensors
//   meta  shapes and dtypes only, of results and of gradients
//   aten  LibTorch's operators under autograd, for tensors of any device
//
// aten does not wait for a device; if an operator has to wait, its header says so.
#pragma once

#include <vector>

#include "kernels/dispatch.h"
#include "kernels/gradient_sink.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

enum class ByDevice : size_t { kCuda, kCpu, kMeta, kAten };
inline constexpr Refusal kNotOnCpu = "the tensors are not on the CPU", kNotMeta = "the tensors hold data";

// Chooses for an operator whose first argument is x; the choice is recorded under `op`, a literal.
// `cuda_refusal`, `cpu_refusal`: why these implementations do not support the call, if they do not.
ByDevice choose_by_device(const char* op, const Tensor& x, Refusal cuda_refusal, Refusal cpu_refusal = {});

struct MetaResult {
  std::vector<int64_t> sizes;
  ScalarType type;
};
// Makes meta tensors, through which each of `inputs` (some may be undefined) gets a gradient of its own
// shape. `sinks`: the sinks to which the backward pass would add; they are notified that it ran.
std::vector<Tensor> meta_results(const std::vector<Tensor>& inputs, const std::vector<MetaResult>& results,
                                 const std::vector<GradientSink>& sinks = {});

// Returns `value` as a tensor whose gradient is added to `sink` and not propagated further; without a sink
// it has no gradient.
Tensor with_gradient_to(const Tensor& value, const GradientSink& sink);

}  // namespace longhaul::kernels
