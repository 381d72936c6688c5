#include "storage/diff.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace longhaul::storage {

namespace {

constexpr int64_t kBlockBytes = 64 << 20;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

double from_bf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

double from_f16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value =
        fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else {
    value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// The element as a number; 64-bit integers are compared separately because a double cannot hold all of them.
double number_at(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kI8:
      return load<int8_t>(at);
    case DType::kI16:
      return load<int16_t>(at);
    case DType::kU16:
      return load<uint16_t>(at);
    case DType::kI32:
      return load<int32_t>(at);
    case DType::kU32:
      return load<uint32_t>(at);
    case DType::kF16:
      return from_f16(load<uint16_t>(at));
    case DType::kBF16:
      return from_bf16(load<uint16_t>(at));
    case DType::kF32:
      return load<float>(at);
    case DType::kF64:
      return load<double>(at);
    default:
      return load<uint8_t>(at);  // bool, unsigned bytes, and the raw byte of the 8-bit floats
  }
}

double gap(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  const double distance = std::abs(a - b);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

double distance_at(DType dtype, const std::byte* a, const std::byte* b) {
  if (dtype == DType::kI64) {
    const auto x = load<int64_t>(a), y = load<int64_t>(b);
    return static_cast<double>(x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
                                     : static_cast<uint64_t>(y) - static_cast<uint64_t>(x));
  }
  if (dtype == DType::kU64) {
    const auto x = load<uint64_t>(a), y = load<uint64_t>(b);
    return static_cast<double>(x > y ? x - y : y - x);
  }
  if (dtype == DType::kC64) {
    return std::max(gap(load<float>(a), load<float>(b)), gap(load<float>(a + 4), load<float>(b + 4)));
  }
  return gap(number_at(dtype, a), number_at(dtype, b));
}

void compare_block(DType dtype, std::span<const std::byte> left, std::span<const std::byte> right,
                   int64_t first_index, int64_t size, TensorDifference& difference) {
  if (std::memcmp(left.data(), right.data(), left.size()) == 0) return;
  const int64_t count = static_cast<int64_t>(left.size()) / size;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte *a = left.data() + i * size, *b = right.data() + i * size;
    if (std::memcmp(a, b, static_cast<size_t>(size)) == 0) continue;
    if (difference.different++ == 0) difference.first_different = first_index + i;
    difference.maximum = std::max(difference.maximum, distance_at(dtype, a, b));
  }
}

// Values of a tensor that both have with equal shape and dtype.
TensorDifference compare_values(const std::string& name, const Checkpoint& left, const Checkpoint& right) {
  const ManifestTensor& tensor = left.at(name);
  TensorDifference difference{.name = name, .kind = TensorDifference::Kind::kValues};
  if (bits_of(tensor.dtype) % 8 != 0) {
    const auto a = left.read_tensor(name), b = right.read_tensor(name);
    difference.elements = static_cast<int64_t>(a.size());
    if (!a.empty()) compare_block(DType::kU8, a, b, 0, 1, difference);
    return difference;
  }
  const layout::Shape shape = tensor.shape.empty() ? layout::Shape{1} : tensor.shape;
  const int64_t size = element_bytes(tensor.dtype);
  difference.elements = layout::volume(shape);
  if (difference.elements == 0) return difference;
  const int64_t row_elements = difference.elements / shape[0];
  const int64_t rows = std::max<int64_t>(1, kBlockBytes / (row_elements * size));
  std::vector<std::byte> a, b;
  for (int64_t row = 0; row < shape[0]; row += rows) {
    layout::Rectangle block = layout::Rectangle::whole(shape);
    block.offset[0] = row;
    block.length[0] = std::min(rows, shape[0] - row);
    a.resize(static_cast<size_t>(block.volume() * size));
    b.resize(a.size());
    left.read(name, block, a);
    right.read(name, block, b);
    compare_block(tensor.dtype, a, b, row * row_elements, size, difference);
  }
  return difference;
}

}  // namespace

CheckpointDifference diff(const Checkpoint& left, const Checkpoint& right) {
  using Kind = TensorDifference::Kind;
  std::set<std::string> names;
  for (const auto& [name, tensor] : left.manifest().tensors) names.insert(name);
  for (const auto& [name, tensor] : right.manifest().tensors) names.insert(name);
  CheckpointDifference result;
  for (const std::string& name : names) {
    const ManifestTensor *a = left.find(name), *b = right.find(name);
    if (a == nullptr || b == nullptr) {
      result.tensors.push_back({.name = name, .kind = b == nullptr ? Kind::kOnlyLeft : Kind::kOnlyRight});
    } else if (a->shape != b->shape) {
      result.tensors.push_back({.name = name,
                                .kind = Kind::kShape,
                                .left = layout::shape_text(a->shape),
                                .right = layout::shape_text(b->shape)});
    } else if (a->dtype != b->dtype) {
      result.tensors.push_back({.name = name,
                                .kind = Kind::kDType,
                                .left = std::string(name_of(a->dtype)),
                                .right = std::string(name_of(b->dtype))});
    } else {
      TensorDifference difference = compare_values(name, left, right);
      if (difference.different == 0) {
        ++result.equal;
      } else {
        result.tensors.push_back(std::move(difference));
      }
    }
  }
  return result;
}

std::string_view name_of(TensorDifference::Kind kind) {
  switch (kind) {
    case TensorDifference::Kind::kOnlyLeft:
      return "only in the first";
    case TensorDifference::Kind::kOnlyRight:
      return "only in the second";
    case TensorDifference::Kind::kShape:
      return "other shape";
    case TensorDifference::Kind::kDType:
      return "other dtype";
    case TensorDifference::Kind::kValues:
      return "other values";
  }
  return "";
}

}  // namespace longhaul::storage
