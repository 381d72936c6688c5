#include "kernels/vector/row_blocks.h"

#include "base/threads/parallel.h"

namespace longhaul::kernels {

Tensor sum_of_blocks(const Tensor& sums) {
  const int64_t blocks = sums.size(0), columns = sums.size(1);
  Tensor total = at::empty({columns}, sums.options());
  AT_DISPATCH_FLOATING_TYPES(sums.scalar_type(), "sum_of_blocks", [&] {
    const scalar_t* from = sums.const_data_ptr<scalar_t>();
    scalar_t* to = total.mutable_data_ptr<scalar_t>();
    parallel_for(0, columns, 512, [&](int64_t begin, int64_t end) {
      std::fill(to + begin, to + end, scalar_t(0));
      for (int64_t b = 0; b < blocks; ++b) {
        for (int64_t c = begin; c < end; ++c) to[c] += from[b * columns + c];
      }
    });
  });
  return total;
}

}  // namespace longhaul::kernels
