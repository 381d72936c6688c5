// Algorithm-based fault tolerance of a product y = x Wᵀ: the sum over 16 neighbouring columns of a row of y is x times the sum of those rows of W, which
// is taken in fp64. Rounding leaves a difference, whose size is estimated from the numbers (each y rounded to its type, sums of `in` products in fp32)
// and exceeded six times by none; what is further away was computed wrongly, or one of the three is no longer what it was. Of the roundings of y that is so
// whatever they are: each is at most u |y|, so 16 of them that all go one way make u √16 ‖y‖ at most, and 6 u ‖y‖ are allowed. Sources: Huang and Abraham
// 1984; docs/sources/reliability.md §5.10.
#pragma once

#include "tensor/tensor.h"

namespace longhaul::kernels {

struct ProductCheck {
  double worst = 0;             // largest difference as a share of what rounding may leave; not finite where y is not
  int64_t row = 0, column = 0;  // where: of y, the first of the columns
  bool good() const { return worst <= 1; }
};

// x_ti [tokens, in], weight_oi [out, in], y_to [tokens, out], of one device; y without a bias.
ProductCheck check_product(const Tensor& x_ti, const Tensor& weight_oi, const Tensor& y_to);

}  // namespace longhaul::kernels
