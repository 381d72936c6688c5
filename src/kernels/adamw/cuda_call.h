// The optimizer step with CUDA kernels: the table of tensors is given as pointers, which lie on the device
// of `beside`.
#pragma once

#include <vector>

#include "kernels/adamw/cuda.h"
#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct AdamwCuda {
  // One step with gradients times `gradient_scale`. `numbers`: the scalars of the step; its tables are filled
  // in here.
  void (*step)(const std::vector<cuda::AdamwTensor>& tensors, cuda::AdamwStep numbers, float gradient_scale,
               const Tensor& beside);
  // The norm of the gradients of `tensors` alone: fp32 [1] on their device.
  Tensor (*gradient_norm)(const std::vector<cuda::AdamwTensor>& tensors, const Tensor& beside);
};

}  // namespace longhaul::kernels
