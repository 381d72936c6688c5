// Algorithm-based fault tolerance of a product y = x Wᵀ: the sum over 16 neighbouring columns of a row of y
// equals x times the sum of those rows of W, which is computed in fp64. Rounding leaves a difference. Its
// size is estimated from the numbers (each y rounded to its type, sums of `in` products in fp32), and no
// correct product exceeds six times that size; a larger difference means that the product was wrong, or
// that one of the three tensors has changed since. For the rounding of y this bound always holds: each
// rounding is at most u |y|, so 16 of them with the same sign sum to at most u √16 ‖y‖, and 6 u ‖y‖ are
// allowed. Sources: Huang and Abraham 1984; docs/sources/reliability.md §5.10.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct ProductCheck {
  // largest difference as a share of what rounding may leave; not finite where y is not
  double worst = 0;
  int64_t row = 0, column = 0;  // where: of y, the first of the columns
  bool good() const { return worst <= 1; }
};

// x_ti [tokens, in], weight_oi [out, in], y_to [tokens, out], of one device; y without a bias.
ProductCheck check_product(const Tensor& x_ti, const Tensor& weight_oi, const Tensor& y_to);

}  // namespace longhaul::kernels
