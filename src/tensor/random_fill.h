// Fills tensors from named random streams: the element at global index i of a logical tensor depends only
// on (seed, stream, i), never on threads, sharding or dtype (lower precisions round the same numbers).
#pragma once

#include "base/random.h"
#include "layout/rectangle.h"
#include "tensor/tensor.h"

namespace longhaul {

// view: the box `held` of a tensor of `global_shape`, with any strides, any floating dtype, any device.
// Fills it with N(0, std²).
void fill_normal(const Tensor& view, const RandomStream& stream, double std,
                 const layout::Shape& global_shape, const layout::Rectangle& held);
// Makes a whole tensor of such numbers.
Tensor normal(const layout::Shape& shape, const RandomStream& stream, double std = 1,
              const at::TensorOptions& options = at::kFloat);

}  // namespace longhaul
