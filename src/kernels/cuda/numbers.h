// Numbers as the CUDA kernels use them, for the host and the device: bf16 as bits, conversions,
// exponentials; and the arguments of a launch.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cuda/fragments.h"

namespace longhaul::kernels::cuda {

using Stream = void*;  // a cudaStream_t; null is the default stream

// bf16 as bits; a unit of 8 is what one thread moves at once.
struct Bf16 {
  uint16_t bits;
};
struct alignas(16) Unit {
  uint32_t word[4];
};
struct alignas(16) FloatUnit {
  float x[4];
};

LONGHAUL_HD float to_float(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float y;
  memcpy(&y, &bits, 4);
  return y;
}
LONGHAUL_HD float to_float(float x) { return x; }
LONGHAUL_HD float low_half(uint32_t pair) { return to_float(Bf16{static_cast<uint16_t>(pair & 0xffffu)}); }
LONGHAUL_HD float high_half(uint32_t pair) { return to_float(Bf16{static_cast<uint16_t>(pair >> 16)}); }

// To nearest, ties to even; a NaN stays a NaN.
LONGHAUL_HD Bf16 to_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return Bf16{0x7fff};
  return Bf16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
LONGHAUL_HD uint32_t pack(float low, float high) {
#if defined(__CUDA_ARCH__)
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return static_cast<uint32_t>(to_bf16(low).bits) | static_cast<uint32_t>(to_bf16(high).bits) << 16;
#endif
}
template <class T>
LONGHAUL_HD T from_float(float x);
template <>
LONGHAUL_HD float from_float<float>(float x) {
  return x;
}
template <>
LONGHAUL_HD Bf16 from_float<Bf16>(float x) {
  return Bf16{static_cast<uint16_t>(pack(x, 0.f) & 0xffffu)};
}

LONGHAUL_HD float power_of_two(float x) {  // 2^x; 0 for −infinity
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
LONGHAUL_HD float exponential(float x) { return power_of_two(x * kLog2E); }
LONGHAUL_HD float reciprocal(float x) {  // one instruction, within 1 ulp; 0 for infinity
#if defined(__CUDA_ARCH__)
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1.f / x;
#endif
}
LONGHAUL_HD float sigmoid(float x) { return reciprocal(1.f + exponential(-x)); }
LONGHAUL_HD float negative_infinity() { return -INFINITY; }

constexpr int kLargestSharedBytes = 163 * 1024;  // per block on sm_80; sm_90 has 227 KiB

}  // namespace longhaul::kernels::cuda
