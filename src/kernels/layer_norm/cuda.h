// layer_norm on a GPU: as rms_norm/cuda.h, with the mean taken off and, where it is given, a bias.
#pragma once

#include "kernels/cuda/norm.h"

namespace longhaul::kernels::cuda {

void layer_norm_forward(const Norm& norm, Stream stream);
void layer_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream);  // norm.x is h

}  // namespace longhaul::kernels::cuda
