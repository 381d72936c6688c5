// swiglu as the epilogue of the product that gives gate and up: a = silu(gate) · up, block by block.
#pragma once

#include "kernels/activation/loops.h"
#include "kernels/matmul/epilogue.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {

// Places in a contiguous matrix.
class Places {
 public:
  explicit Places(const Tensor& matrix)
      : data_(static_cast<std::byte*>(matrix.mutable_data_ptr())),
        ld_(matrix.size(1)),
        bytes_(matrix.element_size()) {}
  void* at(int64_t row, int64_t column) const { return data_ + (row * ld_ + column) * bytes_; }
  int64_t ld() const { return ld_; }

 private:
  std::byte* data_;
  int64_t ld_, bytes_;
};

// a [rows, F] of a product whose result is [rows, 2F], of one type; keeps: the result has a place in memory
// too.
inline Epilogue swiglu_into(const Tensor& a, bool keeps) {
  return {.run =
              [storage = storage_of(a), to = Places(a)](const OutputBlock& block) {
                swiglu_forward_rows({.storage = storage,
                                     .width = block.columns,
                                     .gate = block.y,
                                     .up = block.y_second,
                                     .ld_x = block.ldy,
                                     .y = to.at(block.row, block.column),
                                     .ld_y = to.ld()},
                                    0, block.rows);
              },
          .halves = true,
          .keeps = keeps};
}

}  // namespace longhaul::kernels
