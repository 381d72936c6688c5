#include "kernels/documents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace longhaul::kernels {

void refuse_argument(const char* op, const char* argument, const std::string& expected,
                     const std::string& found) {
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("{}: bad argument {}", op, argument),
               .expected = expected,
               .found = found});
}

std::string shape_text(const Tensor& tensor) {
  if (!tensor.defined()) return "nothing";
  const std::string where = tensor.is_cpu() ? "" : fmt::format(" on {}", tensor.device().str());
  return fmt::format("[{}] {}{}", fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "),
                     name_of(tensor.scalar_type()), where);
}

std::vector<int64_t> document_offsets(const Tensor& offsets, int64_t tokens, const char* op) {
  constexpr const char* kArgument = "offsets (cu_seqlens)";  // here, and in Python
  if (!offsets.defined()) return {0, tokens};
  if (offsets.dim() != 1 || offsets.scalar_type() != at::kLong || !offsets.device().is_cpu() ||
      offsets.numel() < 2) {
    refuse_argument(op, kArgument, "int64 [documents + 1] on the CPU", shape_text(offsets));
  }
  const Tensor flat = offsets.contiguous();
  std::vector<int64_t> result(flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel());
  if (result.front() != 0) refuse_argument(op, kArgument, "0 first", std::to_string(result.front()));
  for (size_t i = 1; i < result.size(); ++i) {
    if (result[i] < result[i - 1]) {
      refuse_argument(op, kArgument, "ascending numbers",
                      fmt::format("{} after {}", result[i], result[i - 1]));
    }
  }
  if (result.back() != tokens)
    refuse_argument(op, kArgument, fmt::format("{} last (the tokens)", tokens),
                    std::to_string(result.back()));
  return result;
}

}  // namespace longhaul::kernels
