// The layout of a large matrix B [k × n] that is packed for products C = A·B: k is cut into chunks of at
// most 512, so that a row of A within a chunk stays in the nearest cache, and each chunk is packed as
// block.h says, one after the other. The cuts depend on k alone, so a sum is always taken in the same
// order. An operator whose products run over single chunks may request shorter ones.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/block.h"

namespace longhaul::kernels {

struct Chunks {
  static constexpr int64_t kLongest = 512;
  explicit Chunks(int64_t k_total, int64_t longest = kLongest)
      : k(k_total),
        count((k + longest - 1) / longest),
        length(count == 0 ? 0 : packed_k((k + count - 1) / count)) {
    if (length > 0) count = (k + length - 1) / length;
  }
  int64_t k, count, length;  // all chunks have `length` but the last
  int64_t begin(int64_t c) const { return c * length; }
  int64_t length_of(int64_t c) const { return std::min(length, k - begin(c)); }
};

template <class Element>
struct PanelLayout {
  PanelLayout(int64_t k, int64_t n_total, int64_t longest = Chunks::kLongest)
      : chunks(k, longest), n(n_total) {}
  Chunks chunks;
  int64_t n;
  int64_t size() const { return panel_rows<Element>(chunks.k) * packed_n(n); }
  // The place of the panel that begins with column j, a multiple of 16.
  int64_t offset(int64_t chunk, int64_t j) const {
    return chunks.begin(chunk) * packed_n(n) + j * panel_rows<Element>(chunks.length_of(chunk));
  }
};

// c [rows × columns] = A B for the columns of B from `column` on, a multiple of 16: over all chunks, in
// order.
template <class Element>
void multiply_panels(const BlockScope& kernels, const Element* a, int64_t lda, const Element* panels,
                     const PanelLayout<Element>& layout, int64_t rows, int64_t column, int64_t columns,
                     float* c, int64_t ldc) {
  if (layout.chunks.count == 0) return kernels->multiply(a, lda, panels, rows, columns, 0, c, ldc, false);
  for (int64_t chunk = 0; chunk < layout.chunks.count; ++chunk) {
    kernels->multiply(a + layout.chunks.begin(chunk), lda, panels + layout.offset(chunk, column), rows,
                      columns, layout.chunks.length_of(chunk), c, ldc, chunk > 0);
  }
}

}  // namespace longhaul::kernels
