// One number rounded to bf16, held as its bits: to nearest, ties to even, and every NaN becomes the quiet 0x7fc0. Loops of it become vectors of
// whatever instruction set they are compiled for: it is always inlined, so no copy compiled for a newer set is left to be linked. For files that
// write their loops plainly; those in Highway's have rounded_bf16 of vector-inl.h, which gives the same bits. Include it outside of target regions.
#pragma once

#include <bit>
#include <cstdint>

namespace longhaul::kernels {

[[gnu::always_inline]] inline uint16_t bf16_bits(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

}  // namespace longhaul::kernels
