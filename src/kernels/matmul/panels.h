// Where a large matrix B [k × n] lies when it is packed for products C = A·B: k is cut into chunks of at most 512, so that a row of A
// within a chunk stays in the nearest cache, and each chunk is packed as block.h says, one behind the other. The cuts depend on k alone,
// so a sum is always taken in the same order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/block/block.h"

namespace longhaul::kernels {

struct Chunks {
  explicit Chunks(int64_t k_total) : k(k_total), count((k + kLongest - 1) / kLongest), length(count == 0 ? 0 : packed_k((k + count - 1) / count)) {
    if (length > 0) count = (k + length - 1) / length;
  }
  static constexpr int64_t kLongest = 512;
  int64_t k, count, length;  // all chunks have `length` but the last
  int64_t begin(int64_t c) const { return c * length; }
  int64_t length_of(int64_t c) const { return std::min(length, k - begin(c)); }
};

template <class Element>
struct PanelLayout {
  PanelLayout(int64_t k, int64_t n_total) : chunks(k), n(n_total) {}
  Chunks chunks;
  int64_t n;
  int64_t size() const { return panel_rows<Element>(chunks.k) * packed_n(n); }
  // Of the panel that begins with column j, a multiple of 16.
  int64_t offset(int64_t chunk, int64_t j) const {
    return chunks.begin(chunk) * packed_n(n) + j * panel_rows<Element>(chunks.length_of(chunk));
  }
};

}  // namespace longhaul::kernels
