// Epilogue: an operation on a block of a product's result right after it was computed, while it is in
// cache, instead of in a separate pass over memory: an activation, or its derivative. It runs on the thread
// that computed the block. Every element of the result belongs to one block. How blocks are cut depends on
// the number of threads, so each element that an epilogue writes must depend on single elements only.
#pragma once

#include <cstdint>
#include <functional>

namespace longhaul::kernels {

struct OutputBlock {
  int64_t row, rows, column, columns;  // place in the result; with Epilogue::halves in its first half
  void* y;                             // [rows × columns], stride ldy, in the type of the product
  void* y_second;                      // the same block of the second half; null without halves
  int64_t ldy;
};

struct Epilogue {
  std::function<void(const OutputBlock&)> run;  // empty: nothing is done
  // columns j and n/2 + j come together (gate and up); n/2 is a multiple of kPanelColumns
  bool halves = false;
  // false: blocks die with the epilogue, the result has no place in memory
  bool keeps = true;
};

}  // namespace longhaul::kernels
