#include "kernels/group_linear/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "kernels/documents.h"
#include "kernels/gemm/block.h"
#include "kernels/group_linear/loops.h"
#include "kernels/matmul/tasks.h"
#include "kernels/operator_clock.h"
#include "kernels/scratch.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kWidth = 16;        // outputs of a panel
constexpr int64_t kRowsOfPiece = 64;  // with four panels of a few thousand inputs: the second-level cache
constexpr int64_t kPanelsOfPiece = 4;

// Some outputs of some rows, for one thread.
struct GroupPiece {
  int64_t expert, row, rows, panel, panels;
};

TaskList<GroupPiece> pieces_of(const std::vector<int64_t>& rows_per_expert, const GroupWeight& weight) {
  TaskList<GroupPiece> pieces;
  int64_t begin = 0;
  for (size_t e = 0; e < rows_per_expert.size(); ++e) {
    const int64_t rows = rows_per_expert[e], height = even_part(rows, kRowsOfPiece, 8);
    for (int64_t panel = 0; panel < weight.panels(); panel += kPanelsOfPiece) {
      const int64_t panels = std::min(kPanelsOfPiece, weight.panels() - panel);
      for (int64_t row = 0; row < rows; row += height) {
        const int64_t here = std::min(height, rows - row);
        pieces.add({static_cast<int64_t>(e), begin + row, here, panel, panels},
                   here * panels * kWidth * weight.groups() * GroupWeight::kGroup);
      }
    }
    begin += rows;
  }
  return pieces;
}

void check_groups(const char* op, const Tensor& x, const std::vector<int64_t>& rows_per_expert,
                  const GroupWeight& weight) {
  const int64_t rows = std::accumulate(rows_per_expert.begin(), rows_per_expert.end(), int64_t{0});
  const bool number = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  if (std::ssize(rows_per_expert) != weight.experts() || x.dim() != 2 || x.size(0) != rows ||
      x.size(1) != weight.in() || !x.is_cpu() || !number) {
    refuse_argument(op, "x",
                    fmt::format("[{}, {}] in bf16 or fp32 on cpu, sorted by {} experts", rows, weight.in(),
                                weight.experts()),
                    shape_text(x));
  }
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "matrices whose weights are in eight bits do not train",
               .expected = "an input without a gradient",
               .found = "one that wants a gradient",
               .where = op,
               .hint = "open the model without --weights int8 to train it"});
}

// x as the loops read it: whole groups of bf16, or of fp32.
struct GroupInput {
  Tensor x;
  bool bf16 = false;
  GroupInput(const Tensor& given, const GroupWeight& weight)
      : bf16(given.scalar_type() == at::kBFloat16 && multiplies_groups_in_bf16()) {
    const int64_t padded = weight.groups() * GroupWeight::kGroup;
    const ScalarType type = bf16 ? at::kBFloat16 : at::kFloat;
    if (given.scalar_type() == type && padded == given.size(1) && given.stride(1) == 1) {
      x = given;
      return;
    }
    x = at::empty({given.size(0), padded}, given.options().dtype(type).requires_grad(false));
    x.narrow(1, 0, given.size(1)).copy_(given);
    x.narrow(1, given.size(1), padded - given.size(1)).zero_();
  }
};

// Where sums go: rows [rows, out], rounded to the type of x, or as they are.
struct GroupOutput {
  Tensor y, bias;

  void write(const GroupPiece& piece, const float* sums, int64_t stride) const {
    const int64_t out = y.size(1), column = piece.panel * kWidth,
                  columns = std::min(piece.panels * kWidth, out - column);
    if (y.scalar_type() == at::kBFloat16) {
      auto* const to = static_cast<uint16_t*>(y.data_ptr()) + piece.row * out + column;
      if (!bias.defined()) return block_kernels().round_bf16(sums, stride, piece.rows, columns, to, out);
      const auto* const b = static_cast<const uint16_t*>(bias.const_data_ptr()) + column;
      return block_kernels().round_bf16_with_bias(sums, stride, piece.rows, columns, b, to, out);
    }
    const float* const b = bias.defined() ? bias.const_data_ptr<float>() + column : nullptr;
    for (int64_t r = 0; r < piece.rows; ++r) {
      float* const to = y.data_ptr<float>() + (piece.row + r) * out + column;
      for (int64_t j = 0; j < columns; ++j) to[j] = sums[r * stride + j] + (b != nullptr ? b[j] : 0.0f);
    }
  }
};

void multiply_groups(const char* op, const Tensor& given, const std::vector<int64_t>& rows_per_expert,
                     const GroupWeight& weight, const GroupOutput& output) {
  check_groups(op, given, rows_per_expert, weight);
  const OperatorFrame frame(op);
  const GroupInput input(given.detach(), weight);
  const int64_t element = input.x.element_size(), of_panel = weight.groups() * kWidth;
  const auto* const x = static_cast<const std::byte*>(input.x.const_data_ptr());
  pieces_of(rows_per_expert, weight).run(kProductGrain, [&](const GroupPiece* first, const GroupPiece* last) {
    static thread_local Scratch scratch;
    float* const sums = scratch.take<float>(kRowsOfPiece * kPanelsOfPiece * kWidth);
    for (const GroupPiece* piece = first; piece != last; ++piece) {
      const GroupProduct product{
          .x = x + piece->row * input.x.stride(0) * element,
          .ldx = input.x.stride(0),
          .rows = piece->rows,
          .groups = weight.groups(),
          .panels = weight.panels_of(piece->expert) + piece->panel * of_panel * GroupWeight::kGroup,
          .scales = weight.scales_of(piece->expert) + piece->panel * of_panel,
          .panel_count = piece->panels,
          .y = sums,
          .ldy = kPanelsOfPiece * kWidth};
      input.bf16 ? multiply_groups_bf16(product) : multiply_groups_fp32(product);
      output.write(*piece, sums, product.ldy);
    }
  });
}

Tensor narrow_result(const Tensor& x, const GroupWeight& weight) {
  return at::empty({x.size(0), weight.out()}, x.options().requires_grad(false));
}

}  // namespace

Tensor group_linear(const Tensor& x, const GroupWeight& weight, const Tensor& bias) {
  const GroupOutput output{narrow_result(x, weight),
                           bias.defined() ? bias.detach().to(x.scalar_type()).contiguous() : bias};
  multiply_groups("group_linear", x, {x.size(0)}, weight, output);
  return output.y;
}

Tensor group_grouped_linear(const Tensor& x, const std::vector<int64_t>& rows_per_expert,
                            const GroupWeight& weight) {
  const GroupOutput output{narrow_result(x, weight), {}};
  multiply_groups("group_grouped_linear", x, rows_per_expert, weight, output);
  return output.y;
}

Tensor group_linear_wide(const Tensor& x, const GroupWeight& weight) {
  const GroupOutput output{
      at::empty({x.size(0), weight.out()}, x.options().dtype(at::kFloat).requires_grad(false)), {}};
  multiply_groups("group_linear_wide", x, {x.size(0)}, weight, output);
  return output.y;
}

Tensor group_rows(const GroupWeight& weight, const Tensor& ids, ScalarType type) {
  LONGHAUL_ASSERT(weight.experts() == 1, "rows of {} experts", weight.experts());
  const Tensor wanted = ids.to(at::kLong).contiguous();
  const auto* const id = wanted.const_data_ptr<int64_t>();
  const Tensor rows = at::zeros({wanted.numel(), weight.in()}, at::kFloat);
  auto* const to = rows.mutable_data_ptr<float>();
  for (int64_t t = 0; t < wanted.numel(); ++t) {
    if (id[t] < 0 || id[t] >= weight.out())
      refuse_argument("group_rows", "ids", fmt::format("0 to {}", weight.out() - 1), std::to_string(id[t]));
    const int64_t panel = id[t] / kWidth, lane = id[t] % kWidth;
    for (int64_t i = 0; i < weight.in(); ++i) {
      const int64_t at = panel * weight.groups() + i / GroupWeight::kGroup, within = i % GroupWeight::kGroup;
      const int8_t q =
          weight.panels_of(0)[at * GroupWeight::kGroup * kWidth + within / 4 * 64 + lane * 4 + within % 4];
      to[t * weight.in() + i] = weight.scales_of(0)[at * kWidth + lane] * static_cast<float>(q);
    }
  }
  return rows.to(type);
}

}  // namespace longhaul::kernels
