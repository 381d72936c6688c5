// Rounds one number to bf16, held as its bits: to nearest, ties to even; every NaN becomes the quiet
// 0x7fc0. Loops of it are vectorised for the instruction set they are compiled for. It is always inlined,
// so that no copy compiled for a newer instruction set can be linked elsewhere. It is for files that write
// plain loops; those that use Highway have rounded_bf16 of vector-inl.h, which gives the same bits. Include
// it outside of target regions.
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
