// The bf16 multiplication on tiles: 2 × 2 tiles of C, each 16 × 16 fp32, with A tiles of 16 rows × 32 k and B
// tiles that lie ready in the panels. Written over the eight tile registers as a class `Tiles`, so that the
// same index code runs on AMX (amx.cpp) and on the exact emulation of its instructions in
// tests/kernels/tile_emulation.h:
//
//   zero<T>() · load<T>(from, stride in bytes) · load_past<T>: the same, but what is loaded does not push
//     others out of the nearest cache ·
//   store<T>(to, stride) · multiply_add<C, A, B>(): TDPBF16PS
//
// Every tile has its full 16 rows × 64 bytes. Where A, or C, has fewer, a copy with zeros around it stands
// in: nothing outside the matrices is read or written. Registers 0–3 hold C, 4–5 A, 6–7 B. Why it is as it
// is: docs/design/amx.md.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/gemm/block.h"

namespace longhaul::kernels {

template <class Tiles>
class TileProduct {
 public:
  static void multiply(const uint16_t* a, int64_t lda, const uint16_t* panels, int64_t m, int64_t n,
                       int64_t k, float* c, int64_t ldc, bool accumulate) {
    TileProduct product{a, lda, panels, m, n, 0, c, ldc, accumulate, packed_k(k) * kSide};
    int64_t begin = 0;
    do {
      product.k = std::min(kLongest, k - begin);
      product.run();
      product.a += product.k;
      product.panels += product.k * kSide;
      product.accumulate = true;
      begin += product.k;
    } while (begin < k);
  }

 private:
  static constexpr int64_t kSide = 16, kDepth = 32;  // rows and columns of a C tile; k of a product of tiles
  // k of a strip of 32 rows of A, which stays in the nearest cache: 32 KiB
  static constexpr int64_t kLongest = 512;
  // Panels that are larger come from the second-level cache: load_past is slow for what lies in the nearest
  // one.
  static constexpr int64_t kNearBytes = 32 << 10;
  // rows this far apart share so few places of the nearest cache that a strip does not stay
  static constexpr int64_t kSetsBytes = 2048;

  TileProduct(const uint16_t* a_, int64_t lda_, const uint16_t* panels_, int64_t m_, int64_t n_, int64_t k_,
              float* c_, int64_t ldc_, bool accumulate_, int64_t panel_)
      : a(a_),
        lda(lda_),
        panels(panels_),
        m(m_),
        n(n_),
        k(k_),
        c(c_),
        ldc(ldc_),
        accumulate(accumulate_),
        panel(panel_) {}

  // Two rows of A tiles stay in the nearest cache while B streams by.
  void run() {
    const bool far = 2 * packed_k(k) * n > kNearBytes;
    for (int64_t i = 0; i < m; i += 2 * kSide) {
      enter_strip(i, far);
      for (int64_t j = 0; j < n; j += 2 * kSide) {
        const bool two_rows = m - i > kSide, two_columns = n - j > kSide;
        if (two_rows && two_columns && far)
          block<true, true, true>(i, j);
        else if (two_rows && two_columns)
          block<true, true, false>(i, j);
        else if (two_rows)
          block<true, false, false>(i, j);
        else if (two_columns)
          block<false, true, false>(i, j);
        else
          block<false, false, false>(i, j);
      }
    }
  }

  // The rows of A of one strip: as they lie where they can be loaded like that, else a copy of all of them,
  // or of their last k's.
  void enter_strip(int64_t i, bool far) {
    const int64_t count = std::min(2 * kSide, m - i);
    steps = k / kDepth;
    rows = a + i * lda;
    stride = lda;
    rest = false;
    if (count % kSide != 0 || (far && n >= 8 * kSide && lda * 2 % kSetsBytes == 0)) {
      copy_rows(rows, count, k, copy);
      rows = copy;
      stride = packed_k(k);
      steps = stride / kDepth;
    } else if (k % kDepth != 0) {
      copy_rows(rows + steps * kDepth, count, k % kDepth, copy);
      rest = true;
    }
    // The strip that follows; behind the last one the next k's of the first, which is where a longer product
    // goes on.
    next = i + 2 * kSide < m ? a + (i + 2 * kSide) * lda : a + k;
    next_rows = i + 2 * kSide < m ? std::min(2 * kSide, m - i - 2 * kSide) : std::min(2 * kSide, m);
  }

  // to [32 × packed_k(columns)], zeros around.
  void copy_rows(const uint16_t* from, int64_t count, int64_t columns, uint16_t* to) const {
    const int64_t wide = packed_k(columns), tall = (count + kSide - 1) / kSide * kSide;
    for (int64_t r = 0; r < tall; ++r) {
      const int64_t filled = r < count ? columns : 0;
      std::copy_n(from + r * lda, filled, to + r * wide);
      std::fill(to + r * wide + filled, to + (r + 1) * wide, uint16_t{0});
    }
  }

  template <bool kTwoRows, bool kTwoColumns, bool kFar>
  void block(int64_t i, int64_t j) const {
    begin<0>(i, j);
    if constexpr (kTwoColumns) begin<1>(i, j + kSide);
    if constexpr (kTwoRows) begin<2>(i + kSide, j);
    if constexpr (kTwoRows && kTwoColumns) begin<3>(i + kSide, j + kSide);
    const uint16_t *x = rows, *y = panels + j / kSide * panel;
    const int64_t row = kSide * stride, bytes = stride * 2, other = panel, end = steps;
    Ahead ahead;
    if constexpr (kFar) ahead = ahead_of(i, j);
    for (int64_t s = 0; s < end; ++s) {
      if constexpr (kFar) ahead.fetch(lda, ldc);
      step<kTwoRows, kTwoColumns, kFar>(x, row, bytes, y, other);
      x += kDepth;
      y += kDepth * kSide;
    }
    if (rest) step<kTwoRows, kTwoColumns, kFar>(copy, kSide * kDepth, kDepth * 2, y, other);
    end_tile<0>(i, j);
    if constexpr (kTwoColumns) end_tile<1>(i, j + kSide);
    if constexpr (kTwoRows) end_tile<2>(i + kSide, j);
    if constexpr (kTwoRows && kTwoColumns) end_tile<3>(i + kSide, j + kSide);
  }

  // What is fetched while a block is in work, an even part before each of its steps: of the strip that
  // follows as many rows as bring in all of it while this one passes all columns; and the next block of C,
  // where it is read. Into the second-level cache: the nearest one is full.
  struct Ahead {
    const uint16_t* a = nullptr;
    const float* c = nullptr;
    int64_t a_rows = 0, c_rows = 0, c_share = 0;

    void fetch(int64_t lda, int64_t ldc) {
      for (int64_t r = 0; r < a_rows; ++r) __builtin_prefetch(a + r * lda, 0, 2);
      a += kDepth;
      for (const int64_t left = c_rows - c_share; c_rows > std::max<int64_t>(left, 0); --c_rows, c += ldc) {
        __builtin_prefetch(c, 1, 2);
        __builtin_prefetch(c + kSide, 1, 2);
      }
    }
  };
  Ahead ahead_of(int64_t i, int64_t j) const {
    constexpr int64_t kBoth = 2 * kSide;
    const int64_t share = kBoth * kBoth / n + 1, first = j / kBoth * share,
                  below = std::clamp<int64_t>(m - i - kBoth, 0, kBoth);
    Ahead ahead;
    ahead.a = next + first * lda;
    ahead.a_rows = std::clamp<int64_t>(next_rows - first, 0, share);
    ahead.c = j + kBoth < n ? c + i * ldc + j + kBoth : c + (i + kBoth) * ldc;
    ahead.c_rows = !accumulate ? 0 : j + kBoth < n ? std::min(kBoth, m - i) : below;
    ahead.c_share = kBoth / std::max<int64_t>(steps, 1) + 1;
    return ahead;
  }

  // 32 k's: the A tiles at x and x + row, the B tiles at y and y + other.
  template <bool kTwoRows, bool kTwoColumns, bool kFar>
  static inline void step(const uint16_t* x, int64_t row, int64_t bytes, const uint16_t* y, int64_t other) {
    Tiles::template load<4>(x, bytes);
    load_b<6, kFar>(y);
    Tiles::template multiply_add<0, 4, 6>();
    if constexpr (kTwoColumns) {
      load_b<7, kFar>(y + other);
      Tiles::template multiply_add<1, 4, 7>();
    }
    if constexpr (kTwoRows) {
      Tiles::template load<5>(x + row, bytes);
      Tiles::template multiply_add<2, 5, 6>();
      if constexpr (kTwoColumns) Tiles::template multiply_add<3, 5, 7>();
    }
  }

  template <int T, bool kFar>
  static inline void load_b(const uint16_t* y) {
    if constexpr (kFar)
      Tiles::template load_past<T>(y, 64);
    else
      Tiles::template load<T>(y, 64);
  }

  bool whole(int64_t i, int64_t j) const { return i + kSide <= m && j + kSide <= n; }

  template <int T>
  inline void begin(int64_t i, int64_t j) const {
    if (!accumulate) return Tiles::template zero<T>();
    if (whole(i, j)) return Tiles::template load<T>(c + i * ldc + j, ldc * 4);
    begin_edge<T>(i, j);
  }

  template <int T>
  inline void end_tile(int64_t i, int64_t j) const {
    if (whole(i, j)) return Tiles::template store<T>(c + i * ldc + j, ldc * 4);
    end_edge<T>(i, j);
  }

  template <int T>
  [[gnu::noinline]] void begin_edge(int64_t i, int64_t j) const {
    alignas(64) float part[kSide * kSide] = {};
    const int64_t count = std::min(kSide, m - i), columns = std::min(kSide, n - j);
    for (int64_t r = 0; r < count; ++r) std::copy_n(c + (i + r) * ldc + j, columns, part + r * kSide);
    Tiles::template load<T>(part, 64);
  }

  template <int T>
  [[gnu::noinline]] void end_edge(int64_t i, int64_t j) const {
    alignas(64) float part[kSide * kSide];
    Tiles::template store<T>(part, 64);
    const int64_t count = std::min(kSide, m - i), columns = std::min(kSide, n - j);
    for (int64_t r = 0; r < count; ++r) std::copy_n(part + r * kSide, columns, c + (i + r) * ldc + j);
  }

  const uint16_t* a;
  int64_t lda;
  const uint16_t* panels;
  int64_t m, n, k;
  float* c;
  int64_t ldc;
  bool accumulate;
  int64_t panel;  // elements from one panel to the next

  // The strip: `steps` products deep, then one more from `copy` where there is a rest of k.
  const uint16_t *rows = nullptr, *next = nullptr;
  int64_t stride = 0, steps = 0, next_rows = 0;
  bool rest = false;
  alignas(64) uint16_t copy[2 * kSide * kLongest];
};

}  // namespace longhaul::kernels
