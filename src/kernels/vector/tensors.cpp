#include "kernels/vector/tensors.h"

#include "base/error.h"

namespace longhaul::kernels {

Storage storage_of(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
      return Storage::kBf16;
    case at::kFloat:
      return Storage::kFp32;
    case at::kDouble:
      return Storage::kFp64;
    default:
      LONGHAUL_ASSERT(false, "no loops for elements in {}", name_of(tensor.scalar_type()));
  }
}

}  // namespace longhaul::kernels
