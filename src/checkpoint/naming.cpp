#include "checkpoint/naming.h"

#include "base/error.h"

namespace longhaul::checkpoint {

std::string stored_name(const optim::StateTensor& tensor) {
  return tensor.kind == "master" ? tensor.name : "optimizer." + tensor.kind + "." + tensor.name;
}

storage::DType storage_dtype(ScalarType type) {
  switch (type) {
    case at::kDouble:
      return storage::DType::kF64;
    case at::kFloat:
      return storage::DType::kF32;
    case at::kBFloat16:
      return storage::DType::kBF16;
    case at::kHalf:
      return storage::DType::kF16;
    case at::kLong:
      return storage::DType::kI64;
    default:
      LONGHAUL_ASSERT(false, "no checkpoint holds {}", name_of(type));
  }
}

ScalarType scalar_type(storage::DType dtype, const std::string& tensor) {
  switch (dtype) {
    case storage::DType::kF64:
      return at::kDouble;
    case storage::DType::kF32:
      return at::kFloat;
    case storage::DType::kBF16:
      return at::kBFloat16;
    case storage::DType::kF16:
      return at::kHalf;
    default:
      throw Error({.code = ExitCode::kCheckpoint,
                   .what = "a tensor has a dtype that weights and moments never have",
                   .expected = "F64, F32, BF16 or F16",
                   .found = std::string(storage::name_of(dtype)),
                   .where = tensor});
  }
}

}  // namespace longhaul::checkpoint
