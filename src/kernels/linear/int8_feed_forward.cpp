#include "kernels/linear/int8_feed_forward.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"
#include "kernels/activation/op.h"
#include "kernels/dispatch.h"
#include "kernels/documents.h"
#include "kernels/linear/swiglu_epilogue.h"
#include "kernels/matmul/matmul.h"

namespace longhaul::kernels {
namespace {

constexpr std::string_view kInt8Products[] = {"packed", "libtorch"}, kInt8Forms[] = {"fused", "composed"};
constexpr Dispatcher kInt8Linear("int8_grouped_linear", kInt8Products),
    kInt8FeedForward("int8_grouped_feed_forward", kInt8Forms);

void check(const char* op, const Tensor& x, const std::vector<int64_t>& rows_per_expert,
           const Int8Weight& weight) {
  const int64_t rows = std::accumulate(rows_per_expert.begin(), rows_per_expert.end(), int64_t{0});
  if (static_cast<int64_t>(rows_per_expert.size()) != weight.experts() || x.dim() != 2 || x.size(0) != rows ||
      x.size(1) != weight.in() || !x.is_floating_point()) {
    refuse_argument(
        op, "x", fmt::format("[rows, {}] sorted by {} experts", weight.in(), weight.experts()),
        fmt::format("{} and {} numbers of rows, sum {}", shape_text(x), rows_per_expert.size(), rows));
  }
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "experts whose weights are in eight bits do not train",
               .expected = "an input without a gradient",
               .found = "one that wants a gradient",
               .where = op,
               .hint = "open the model without int8 experts to train it"});
}

Refusal refuse_fused(const Tensor& x, const Int8Weight& up, const Int8Weight& down) {
  for (const Int8Weight* weight : {&up, &down}) {
    if (const Refusal refusal = refuse_packed(x, *weight); !refusal.empty()) return refusal;
  }
  return down.in() % kPanelColumns != 0 ? "gate and up share a panel of columns" : "";
}

Tensor libtorch_output(const Tensor& x, const std::vector<int64_t>& rows_per_expert,
                       const Int8Weight& weight) {
  const ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;  // of the sums
  const Tensor y = at::empty({x.size(0), weight.out()}, x.options());
  int64_t begin = 0;
  for (int64_t e = 0; e < weight.experts(); ++e) {
    const int64_t rows = rows_per_expert[static_cast<size_t>(e)];
    if (rows == 0) continue;
    const Tensor sums = at::mm(x.narrow(0, begin, rows).to(type), weight.values(e).to(type).t());
    y.narrow(0, begin, rows).copy_(sums.mul(weight.scale_eo()[e].to(type)));
    begin += rows;
  }
  return y;
}

}  // namespace

Tensor int8_grouped_linear(const Tensor& x, const std::vector<int64_t>& rows_per_expert,
                           const Int8Weight& weight) {
  check("int8_grouped_linear", x, rows_per_expert, weight);
  const size_t choice =
      kInt8Linear.choose([&](size_t i) { return i == 0 ? refuse_packed(x, weight) : Refusal(); });
  return choice == 0 ? packed_output(x, rows_per_expert, weight)
                     : libtorch_output(x, rows_per_expert, weight);
}

Tensor int8_grouped_feed_forward(const Tensor& x, const std::vector<int64_t>& rows_per_expert,
                                 const Int8Weight& up, const Int8Weight& down) {
  check("int8_grouped_feed_forward", x, rows_per_expert, up);
  if (down.experts() != up.experts() || 2 * down.in() != up.out()) {
    refuse_argument("int8_grouped_feed_forward", "down",
                    fmt::format("[{}, out, half of {}]", up.experts(), up.out()),
                    fmt::format("[{}, {}, {}]", down.experts(), down.out(), down.in()));
  }
  const size_t choice =
      kInt8FeedForward.choose([&](size_t i) { return i == 0 ? refuse_fused(x, up, down) : Refusal(); });
  if (choice == 1)
    return int8_grouped_linear(swiglu(int8_grouped_linear(x, rows_per_expert, up)), rows_per_expert, down);
  const Tensor a = at::empty({x.size(0), down.in()}, x.options().requires_grad(false));
  packed_output(x, rows_per_expert, up, swiglu_into(a, /*keeps=*/false));
  return packed_output(a, rows_per_expert, down);
}

}  // namespace longhaul::kernels
