#include "kernels/layer_norm/cuda.h"

#include "kernels/cuda/norm_kernels.h"

namespace longhaul::kernels::cuda {

void layer_norm_forward(const Norm& norm, Stream stream) { norm_forward<true>("layer_norm.forward", norm, stream); }
void layer_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream) {
  norm_backward<true>("layer_norm.backward", norm, gradient, stream);
}

}  // namespace longhaul::kernels::cuda
