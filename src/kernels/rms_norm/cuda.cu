#include "kernels/rms_norm/cuda.h"

#include "kernels/cuda/norm_kernels.h"

namespace longhaul::kernels::cuda {

void rms_norm_forward(const Norm& norm, Stream stream) { norm_forward<false>("rms_norm.forward", norm, stream); }
void rms_norm_backward(const Norm& norm, const NormGradient& gradient, Stream stream) {
  norm_backward<false>("rms_norm.backward", norm, gradient, stream);
}

}  // namespace longhaul::kernels::cuda
