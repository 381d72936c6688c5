// Epilogue: what is done to a block of a product's result right after it was computed, while it lies in cache, instead of in a pass over
// memory of its own: an activation, or its slope. Runs on the thread that computed the block. Every element of the result belongs to one
// block; how blocks are cut depends on the number of threads, so what an epilogue writes must depend on single elements only.
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
  bool halves = false;                          // columns j and n/2 + j come together (gate and up); n/2 is a multiple of kPanelColumns
  bool keeps = true;                            // false: blocks die with the epilogue, the result has no place in memory
};

}  // namespace longhaul::kernels
