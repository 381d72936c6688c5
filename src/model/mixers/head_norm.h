// RMS norm of each head of x [tokens, heads · head_dim], with a weight [head_dim] that all heads share.
#pragma once

#include "kernels/norm/op.h"
#include "model/parameter.h"

namespace longhaul::model {

inline Tensor head_norm(const Tensor& x, Parameter& weight, int64_t head_dim, double eps) {
  return kernels::rms_norm(x.reshape({-1, head_dim}), weight.use(), eps).view(x.sizes());
}

}  // namespace longhaul::model
