// The bf16 multiplication on tiles: 2 × 2 tiles of C, each 16 × 16 fp32, with A tiles of 16 rows × 32 k and B tiles that lie ready in the
// panels. Written over the eight tile registers as a class `Tiles`, so that the same index code runs on AMX (amx.cpp) and on the
// exact emulation of its instructions in tests/kernels/tile_emulation.h:
//
//   zero<T>() · load<T>(from, stride in bytes) · load_once<T>: the same for what is not read again soon · store<T>(to, stride) ·
//   multiply_add<C, A, B>(): TDPBF16PS
//
// Every tile has its full 16 rows × 64 bytes. Where A, or C, has fewer, a copy with zeros around it stands in: nothing outside the
// matrices is read or written. Registers 0–3 hold C, 4–5 A, 6–7 B.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/block/block.h"

namespace longhaul::kernels {

template <class Tiles>
class TileProduct {
 public:
  static void multiply(const uint16_t* a, int64_t lda, const uint16_t* panels, int64_t m, int64_t n, int64_t k, float* c, int64_t ldc,
                       bool accumulate) {
    const TileProduct product{a, lda, panels, m, n, k, c, ldc, accumulate};
    // Two rows of A tiles stay in the nearest cache while B streams by.
    for (int64_t i = 0; i < m; i += 2 * kSide) {
      for (int64_t j = 0; j < n; j += 2 * kSide) {
        const bool two_rows = m - i > kSide, two_columns = n - j > kSide;
        if (two_rows && two_columns)
          product.block<true, true>(i, j);
        else if (two_rows)
          product.block<true, false>(i, j);
        else if (two_columns)
          product.block<false, true>(i, j);
        else
          product.block<false, false>(i, j);
      }
    }
  }

 private:
  static constexpr int64_t kSide = 16, kDepth = 32;  // rows and columns of a C tile; k of a product of tiles

  template <bool kTwoRows, bool kTwoColumns>
  void block(int64_t i, int64_t j) const {
    begin<0>(i, j);
    if constexpr (kTwoColumns) begin<1>(i, j + kSide);
    if constexpr (kTwoRows) begin<2>(i + kSide, j);
    if constexpr (kTwoRows && kTwoColumns) begin<3>(i + kSide, j + kSide);
    const uint16_t* const b = panels + j * packed_k(k);
    for (int64_t at = 0; at < k; at += kDepth) {
      load_a<4>(i, at);
      Tiles::template load_once<6>(b + at * kSide, 64);
      Tiles::template multiply_add<0, 4, 6>();
      if constexpr (kTwoColumns) {
        Tiles::template load_once<7>(b + kSide * packed_k(k) + at * kSide, 64);
        Tiles::template multiply_add<1, 4, 7>();
      }
      if constexpr (kTwoRows) {
        load_a<5>(i + kSide, at);
        Tiles::template multiply_add<2, 5, 6>();
        if constexpr (kTwoColumns) Tiles::template multiply_add<3, 5, 7>();
      }
    }
    end<0>(i, j);
    if constexpr (kTwoColumns) end<1>(i, j + kSide);
    if constexpr (kTwoRows) end<2>(i + kSide, j);
    if constexpr (kTwoRows && kTwoColumns) end<3>(i + kSide, j + kSide);
  }

  bool whole(int64_t i, int64_t j) const { return i + kSide <= m && j + kSide <= n; }

  template <int T>
  void load_a(int64_t i, int64_t at) const {
    if (i + kSide <= m && at + kDepth <= k) return Tiles::template load<T>(a + i * lda + at, lda * 2);
    alignas(64) uint16_t copy[kSide * kDepth] = {};
    const int64_t rows = std::min(kSide, m - i), depth = std::min(kDepth, k - at);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(copy + r * kDepth, a + (i + r) * lda + at, static_cast<size_t>(depth) * 2);
    Tiles::template load<T>(copy, 64);
  }

  template <int T>
  void begin(int64_t i, int64_t j) const {
    if (!accumulate) return Tiles::template zero<T>();
    if (whole(i, j)) return Tiles::template load<T>(c + i * ldc + j, ldc * 4);
    alignas(64) float copy[kSide * kSide] = {};
    const int64_t rows = std::min(kSide, m - i), columns = std::min(kSide, n - j);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(copy + r * kSide, c + (i + r) * ldc + j, static_cast<size_t>(columns) * 4);
    Tiles::template load<T>(copy, 64);
  }

  template <int T>
  void end(int64_t i, int64_t j) const {
    if (whole(i, j)) return Tiles::template store<T>(c + i * ldc + j, ldc * 4);
    alignas(64) float copy[kSide * kSide];
    Tiles::template store<T>(copy, 64);
    const int64_t rows = std::min(kSide, m - i), columns = std::min(kSide, n - j);
    for (int64_t r = 0; r < rows; ++r) std::memcpy(c + (i + r) * ldc + j, copy + r * kSide, static_cast<size_t>(columns) * 4);
  }

  const uint16_t* a;
  int64_t lda;
  const uint16_t* panels;
  int64_t m, n, k;
  float* c;
  int64_t ldc;
  bool accumulate;

  TileProduct(const uint16_t* a_, int64_t lda_, const uint16_t* panels_, int64_t m_, int64_t n_, int64_t k_, float* c_, int64_t ldc_,
              bool accumulate_)
      : a(a_), lda(lda_), panels(panels_), m(m_), n(n_), k(k_), c(c_), ldc(ldc_), accumulate(accumulate_) {}
};

}  // namespace longhaul::kernels
