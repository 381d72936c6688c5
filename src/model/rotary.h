// Rotary positions (arXiv 2104.09864) on the first `dim` channels of every head; the others pass untouched. NeoX pairs (j, j + dim/2),
// angle = position · base^(−2j/dim) formed in fp64, cos and sin rounded to fp32 (fp64 in fp64 models).
#pragma once

#include <span>

#include "tensor/tensor.h"

namespace longhaul::model {

struct RotaryTable {
  Tensor cos_t1r, sin_t1r;  // [tokens, 1, dim/2]
};

RotaryTable rotary_table(std::span<const int64_t> positions, int64_t dim, double base, ScalarType type);
Tensor apply_rotary(const Tensor& x_thd, const RotaryTable& table);  // differentiable

}  // namespace longhaul::model
