// The three products of a linear layer on raw memory, for one weight or for many at once (experts): group g
// takes rows begin … begin + rows of x and y and has its own weight. bf16 (as bits, sums and gradients in
// fp32) and fp32.
//
//   y = x B (+ bias)      B packed as PanelLayout says: Wᵀ for the forward pass,
//       W for the gradient of the input; then the epilogue
//   y = (x B) ∘ scale     B in eight bits (int8_weight.h), widened while it is multiplied;
//       the same sums as with a wide B, then the scales
//   y = x B in fp32       the sums as they come out, for one weight
//   sink += dyᵀ x         in fp32, straight into the sink; bias_sink += Σ_t dy_t
//
// One parallel region for all groups (the weight gradient has two: packing, then products). Results do not
// depend on the number of threads or on the blocking: every element is summed by one thread, over chunks of k
// in order (docs/sources/cpu-performance.md §4).
#pragma once

#include <span>
#include <vector>

#include "kernels/matmul/epilogue.h"
#include "kernels/matmul/panels.h"

namespace longhaul::kernels {

struct RowGroup {
  int64_t begin = 0, rows = 0;
};
std::vector<RowGroup> row_groups(std::span<const int64_t> rows_per_group);

template <class Element, class Stored = Element>  // Stored: int8_t, or the same
struct RowProduct {
  const Element* x;  // [rows × k], stride ldx
  int64_t ldx;
  // of all groups, PanelLayout<Element>(k, n).size() apart; int8: Int8Layout(k, n).size()
  const Stored* panels;
  const Element* bias;  // [n] or null; of every group
  Element* y;           // [rows × n], stride ldy; null where the epilogue does not keep it
  int64_t ldy;
  int64_t k, n;
  const Epilogue& epilogue;
  const float* scales = nullptr;  // int8: [groups, n]
};
template <class Element, class Stored = Element>
void multiply_rows(const RowProduct<Element, Stored>& product, std::span<const RowGroup> groups);

template <class Element>
struct WideProduct {
  const Element* x;  // [rows × k], stride ldx
  int64_t ldx;
  const Element* panels;
  float* y;  // [rows × n]
  int64_t rows, k, n;
};
template <class Element>
void multiply_rows_wide(const WideProduct<Element>& product);

// `matrices` weights [out × in], row-major and contiguous, to be packed: B = Wᵀ (k = in, n = out), or with
// `for_input` B = W (k = out, n = in).
template <class Element>
struct WeightsToPack {
  const Element* weights;
  int64_t matrices, out, in;
  bool for_input;
  int64_t longest = Chunks::kLongest;  // of the chunks of k
};
template <class Element>
void pack_weights(const WeightsToPack<Element>& from, Element* panels);
// Rows [begin, end) of one of them, on the calling thread: begin is a multiple of 32, end too or the last
// row. Rows make panels of their own or stretches of panels, so several threads may pack different rows.
template <class Element>
void pack_rows(const WeightsToPack<Element>& from, int64_t matrix, int64_t begin, int64_t end,
               Element* panels);

template <class Element>
struct WeightGradient {
  const Element* dy;  // [rows × out], stride ld_dy
  int64_t ld_dy;
  const Element* x;  // [rows × in], stride ldx
  int64_t ldx;
  float* sink;       // [groups, out, in]
  float* bias_sink;  // [out] or null; with one group only
  int64_t out, in;
};
template <class Element>
void add_weight_gradients(const WeightGradient<Element>& gradient, std::span<const RowGroup> groups);

}  // namespace longhaul::kernels
