#include "comm/threads/combine.h"

#include <ATen/OpMathType.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace longhaul::comm {
namespace {

void copy(const Piece& piece) {
  const size_t bytes = static_cast<size_t>(piece.elements) * c10::elementSize(piece.type);
  for (std::byte* target : piece.targets) {
    if (target != piece.sources.front()) std::memcpy(target, piece.sources.front(), bytes);
  }
}

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) {  // wraps around, which signed numbers may not by themselves
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

template <class T>
T max_of(T a, T b) {
  // NaN stays, whoever has it; without branches, for vectors
  const bool takes_b = (a < b) | ((b != b) & (a == a));
  return takes_b ? b : a;
}

template <class T>
T narrowed(at::opmath_type<T> wide) {
  // to the nearest, ties to even: as LibTorch does it, but without branches
  if constexpr (std::is_same_v<T, at::BFloat16>) {
    const uint32_t bits = std::bit_cast<uint32_t>(wide);
    const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    return {static_cast<uint16_t>(wide != wide ? 0x7fc0U : rounded), at::BFloat16::from_bits()};
  } else {
    return static_cast<T>(wide);
  }
}

// A block stays in the processor's first cache while all sources go over it. It is also what allows a target
// to be a source.
template <class T, class Operator>
void combine_as(const Piece& piece, const Operator& put_together) {
  using Wide = at::opmath_type<T>;
  constexpr int64_t kBlock = 1024;
  Wide block[kBlock];
  for (int64_t begin = 0; begin < piece.elements; begin += kBlock) {
    const int64_t count = std::min(kBlock, piece.elements - begin);
    const T* first = reinterpret_cast<const T*>(piece.sources.front()) + begin;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) block[i] = static_cast<Wide>(first[i]);
    for (size_t s = 1; s < piece.sources.size(); ++s) {
      const T* source = reinterpret_cast<const T*>(piece.sources[s]) + begin;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) block[i] = put_together(block[i], static_cast<Wide>(source[i]));
    }
    for (std::byte* bytes : piece.targets) {
      T* target = reinterpret_cast<T*>(bytes) + begin;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) target[i] = narrowed<T>(block[i]);
    }
  }
}

template <class T>
void combine_typed(const Piece& piece) {
  if (piece.reduction == Reduction::kSum) {
    combine_as<T>(piece, [](auto a, auto b) { return sum_of(a, b); });
  } else {
    combine_as<T>(piece, [](auto a, auto b) { return max_of(a, b); });
  }
}

}  // namespace

bool can_combine(ScalarType type, Reduction reduction) {
  switch (type) {
    case at::kBFloat16:
    case at::kHalf:
    case at::kFloat:
    case at::kDouble:
    case at::kLong:
    case at::kInt:
    case at::kShort:
    case at::kChar:
    case at::kByte:
      return true;
    case at::kBool:
      return reduction == Reduction::kMax;
    default:
      return false;
  }
}

void combine(const Piece& piece) {
  if (piece.sources.size() == 1) return copy(piece);
  switch (piece.type) {
    case at::kBFloat16:
      return combine_typed<at::BFloat16>(piece);
    case at::kHalf:
      return combine_typed<at::Half>(piece);
    case at::kFloat:
      return combine_typed<float>(piece);
    case at::kDouble:
      return combine_typed<double>(piece);
    case at::kLong:
      return combine_typed<int64_t>(piece);
    case at::kInt:
      return combine_typed<int32_t>(piece);
    case at::kShort:
      return combine_typed<int16_t>(piece);
    case at::kChar:
      return combine_typed<int8_t>(piece);
    case at::kByte:
    case at::kBool:  // the maximum of truths: whether any is true
      return combine_typed<uint8_t>(piece);
    default:
      break;
  }
  LONGHAUL_ASSERT(false, "no {} of {}", name_of(piece.reduction), name_of(piece.type));
}

}  // namespace longhaul::comm
