#include "tensor/random_fill.h"

#include <algorithm>

#include "base/memory/memory_purpose.h"
#include "base/threads/parallel.h"

namespace longhaul {
namespace {

// in fp64: beside a large embedding a copy of all of it would be missed
constexpr int64_t kElementsAtOnce = int64_t{1} << 21;

void fill_box(const Tensor& view, const RandomStream& stream, double std, const layout::Shape& global_shape,
              const layout::Rectangle& held) {
  const int64_t columns = global_shape.back(), held_columns = held.length.back();
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  Tensor values = at::empty({held.volume()}, at::kDouble);
  double* out = values.mutable_data_ptr<double>();
  parallel_for(0, held.volume() / held_columns, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      // Row of the box → flat index of its first element in the whole tensor.
      int64_t rest = row, index = 0, stride = columns;
      for (size_t d = held.length.size() - 1; d-- > 0;) {
        index += (held.offset[d] + rest % held.length[d]) * stride;
        rest /= held.length[d];
        stride *= global_shape[d];
      }
      index += held.offset.back();
      for (int64_t c = 0; c < held_columns; ++c) {
        out[row * held_columns + c] = std * stream.normal(static_cast<uint64_t>(index + c));
      }
    }
  });
  const Tensor box = values.view(held.length);
  // rounded here, so that every device gets the same bits
  view.copy_(view.is_cpu() ? box : box.to(view.scalar_type()));
}

}  // namespace

void fill_normal(const Tensor& view, const RandomStream& stream, double std,
                 const layout::Shape& global_shape, const layout::Rectangle& held) {
  if (held.volume() == 0 || view.is_meta()) return;
  const int64_t all = held.length[0], at_once = std::max<int64_t>(1, kElementsAtOnce / (held.volume() / all));
  for (int64_t begin = 0; begin < all; begin += at_once) {
    layout::Rectangle part = held;
    part.offset[0] += begin;
    part.length[0] = std::min(at_once, all - begin);
    fill_box(view.narrow(0, begin, part.length[0]), stream, std, global_shape, part);
  }
}

Tensor normal(const layout::Shape& shape, const RandomStream& stream, double std,
              const at::TensorOptions& options) {
  Tensor tensor = at::empty(shape, options);
  fill_normal(tensor, stream, std, shape, layout::Rectangle::whole(shape));
  return tensor;
}

}  // namespace longhaul
