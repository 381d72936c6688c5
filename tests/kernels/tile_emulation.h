// The tile instructions of AMX in plain C++, exactly as Intel's manual (Instruction Set Extensions reference,
// TDPBF16PS) defines them, for machines that do not have them. Of TDPBF16PS: denormal bf16 operands and
// denormal results count as 0 (DAZ = FTZ = 1), rounding is to nearest even, MXCSR does not matter; the even
// and the odd k of a row are summed apart with fused multiply-adds, both sums are added, and that is added to
// the destination. Tiles are 16 rows × 64 bytes; use before configure() is counted as an error.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace longhaul::testing {

struct EmulatedTiles {
  struct Tile {
    alignas(64) std::array<std::array<uint8_t, 64>, 16> row;
  };
  static inline thread_local std::array<Tile, 8> tiles;
  static inline thread_local bool configured = false;
  static inline thread_local int64_t mistakes = 0, products = 0, past = 0;  // past: tiles loaded by load_past

  static void configure() {  // LDTILECFG zeroes all tiles
    tiles = {};
    configured = true;
  }
  static void release() { configured = false; }

  template <int T>
  static void zero() {
    tile<T>() = {};
  }
  template <int T>
  static void load(const void* from, int64_t stride) {
    for (int r = 0; r < 16; ++r)
      std::memcpy(tile<T>().row[static_cast<size_t>(r)].data(),
                  static_cast<const uint8_t*>(from) + r * stride, 64);
  }
  template <int T>
  static void load_past(const void* from, int64_t stride) {
    ++past;
    load<T>(from, stride);
  }
  template <int T>
  static void store(void* to, int64_t stride) {
    for (int r = 0; r < 16; ++r)
      std::memcpy(static_cast<uint8_t*>(to) + r * stride, tile<T>().row[static_cast<size_t>(r)].data(), 64);
  }
  template <int C, int A, int B>
  static void multiply_add() {
    static_assert(C != A && C != B && A != B,
                  "the instruction faults when two operands are the same register");
    ++products;
    for (size_t m = 0; m < 16; ++m) {
      float sums[16][2] = {};
      for (size_t k = 0; k < 16; ++k) {
        for (size_t n = 0; n < 16; ++n) {
          for (size_t odd = 0; odd < 2; ++odd) {
            sums[n][odd] = flushed(
                std::fma(bf16(tile<A>(), m, 2 * k + odd), bf16(tile<B>(), k, 2 * n + odd), sums[n][odd]));
          }
        }
      }
      float c[16];
      std::memcpy(c, tile<C>().row[m].data(), 64);
      for (size_t n = 0; n < 16; ++n) c[n] = flushed(flushed(c[n]) + flushed(sums[n][0] + sums[n][1]));
      std::memcpy(tile<C>().row[m].data(), c, 64);
    }
  }

 private:
  template <int T>
  static Tile& tile() {
    static_assert(T >= 0 && T < 8);
    if (!configured) ++mistakes;
    return tiles[T];
  }
  static float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
  static float bf16(const Tile& tile, size_t row, size_t column) {
    uint16_t bits;
    std::memcpy(&bits, tile.row[row].data() + 2 * column, 2);
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return flushed(value);
  }
};

}  // namespace longhaul::testing
