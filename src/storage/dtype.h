// DType: the element types that a safetensors file may hold, with their widths in bits. Their order is that
// of the tensors in files, wide types last in the enum: a writer sorts by descending DType, so that every
// tensor is aligned to its element size.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace longhaul::storage {

enum class DType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};
inline constexpr int kDTypeCount = 22;

std::string_view name_of(DType dtype);  // "BF16", as written in files
std::optional<DType> dtype_named(std::string_view name);
int bits_of(DType dtype);

}  // namespace longhaul::storage
