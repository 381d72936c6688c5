#include "kernels/vector/tensors.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include <hwy/highway.h>

namespace longhaul::kernels {
namespace {

// Highway numbers instruction sets from the best one up.
bool limit_instruction_sets() {
  const char* wanted = std::getenv("LONGHAUL_CPU");
  const std::string_view name = wanted != nullptr ? wanted : "";
  if (name == "portable") {
    hwy::DisableTargets(~static_cast<int64_t>(HWY_STATIC_TARGET));
  } else if (name == "avx2") {
    hwy::DisableTargets(HWY_AVX2 - 1);
  } else if (!name.empty() && name != "avx512" && name != "avx512_bf16" && name != "amx") {
    throw Error({.code = ExitCode::kUsage,
                 .what = "no such instruction set",
                 .expected = "amx, avx512_bf16, avx512, avx2 or portable",
                 .found = std::string(name),
                 .where = "LONGHAUL_CPU"});
  }
  return true;
}

}  // namespace

Storage storage_of(const Tensor& tensor) {
  [[maybe_unused]] static const bool limited = limit_instruction_sets();
  switch (tensor.scalar_type()) {
    case at::kBFloat16: return Storage::kBf16;
    case at::kFloat: return Storage::kFp32;
    case at::kDouble: return Storage::kFp64;
    default: LONGHAUL_ASSERT(false, "no loops for elements in {}", name_of(tensor.scalar_type()));
  }
}

}  // namespace longhaul::kernels
