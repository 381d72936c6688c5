// short_convolution by CUDA kernels on tensors of one device.
#pragma once

#include "kernels/cuda/calls.h"
#include "kernels/short_convolution/problem.h"

namespace longhaul::kernels {

struct ConvolutionCuda : ConvolutionForm {};

}  // namespace longhaul::kernels
