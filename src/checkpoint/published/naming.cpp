#include "checkpoint/published/naming.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace longhaul::checkpoint {
namespace {

constexpr std::array<std::pair<ScalarType, storage::DType>, 8> kDtypes = {
    {{at::kDouble, storage::DType::kF64},
     {at::kFloat, storage::DType::kF32},
     {at::kBFloat16, storage::DType::kBF16},
     {at::kHalf, storage::DType::kF16},
     {at::kLong, storage::DType::kI64},
     {at::kInt, storage::DType::kI32},
     {at::kByte, storage::DType::kU8},
     {at::kBool, storage::DType::kBool}}};

}  // namespace

std::string file_name(const std::string& kind, int64_t rank, int64_t writers) {
  return writers == 1 ? kind + ".safetensors"
                      : fmt::format("{}-{:05}-of-{:05}.safetensors", kind, rank + 1, writers);
}

storage::DType storage_dtype(ScalarType type) {
  for (const auto& [tensor, stored] : kDtypes) {
    if (tensor == type) return stored;
  }
  LONGHAUL_ASSERT(false, "no checkpoint holds {}", name_of(type));
}

ScalarType scalar_type(storage::DType dtype, const std::string& tensor) {
  std::string known;
  for (const auto& [type, stored] : kDtypes) {
    if (stored == dtype) return type;
    known += (known.empty() ? "" : ", ") + std::string(storage::name_of(stored));
  }
  throw Error({.code = ExitCode::kCheckpoint,
               .what = "a tensor has a dtype that training state never has",
               .expected = known,
               .found = std::string(storage::name_of(dtype)),
               .where = tensor});
}

}  // namespace longhaul::checkpoint
