#include "kernels/experts/rows.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/experts/loops.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kRowGrain = 16;
constexpr Refusal kLeftToLibtorch = "it is left to LibTorch";

Tensor taken(const Tensor& x, const Tensor& index) {
  const Tensor out = at::empty({index.size(0), x.size(1)}, x.options());
  const int64_t* const from_row = index.const_data_ptr<int64_t>();
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  const auto bytes = static_cast<size_t>(x.size(1) * x.element_size());
  parallel_for(0, index.size(0), kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(to + static_cast<size_t>(r) * bytes, from + static_cast<size_t>(from_row[r]) * bytes,
                  bytes);
  });
  return out;
}

Tensor summed(const Tensor& y, const Tensor& index, int64_t tokens) {
  const int64_t* const token = index.const_data_ptr<int64_t>();
  std::vector<int64_t> begin_of(static_cast<size_t>(tokens) + 1, 0), rows(static_cast<size_t>(index.size(0)));
  for (int64_t r = 0; r < index.size(0); ++r) ++begin_of[static_cast<size_t>(token[r]) + 1];
  for (size_t t = 0; t + 1 < begin_of.size(); ++t) begin_of[t + 1] += begin_of[t];
  std::vector<int64_t> next(begin_of.begin(), begin_of.end() - 1);
  for (int64_t r = 0; r < index.size(0); ++r)
    rows[static_cast<size_t>(next[static_cast<size_t>(token[r])]++)] = r;
  const Tensor out = at::empty({tokens, y.size(1)}, y.options());
  auto* const to = static_cast<char*>(out.mutable_data_ptr());
  const int64_t bytes = y.size(1) * y.element_size();
  parallel_for(0, tokens, kRowGrain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = begin_of[static_cast<size_t>(t)];
      combine_rows({.storage = storage_of(y),
                    .hidden = y.size(1),
                    .k = begin_of[static_cast<size_t>(t) + 1] - first,
                    .place_tk = rows.data() + first,
                    .weight_tk = nullptr,
                    .y_rd = y.const_data_ptr(),
                    .out_td = to + t * bytes},
                   0, 1);
    }
  });
  return out;
}

void check(const char* op, const Tensor& x, const Tensor& index, int64_t rows, int64_t range) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf)
    refuse_argument(op, "rows", "[rows, channels] in bf16, fp32 or fp64", shape_text(x));
  const bool fits = index.dim() == 1 && index.scalar_type() == at::kLong && index.device() == x.device() &&
                    (rows < 0 || index.size(0) == rows);
  if (!fits)
    refuse_argument(op, "index", fmt::format("int64 [{}]", rows < 0 ? "rows" : std::to_string(rows)),
                    shape_text(index));
  if (!index.is_cpu() || index.numel() == 0) return;
  const int64_t least = index.min().item<int64_t>(), most = index.max().item<int64_t>();
  if (least < 0 || most >= range)
    refuse_argument(op, "index", fmt::format("0 to {}", range - 1), fmt::format("{} to {}", least, most));
}

}  // namespace

Tensor take_rows(const Tensor& x, const Tensor& index) {
  check("take_rows", x, index, -1, x.size(0));
  const ByDevice choice = choose_by_device("take_rows", x, kLeftToLibtorch);
  if (choice == ByDevice::kMeta) return meta_results({x}, {{{index.size(0), x.size(1)}, x.scalar_type()}})[0];
  if (choice != ByDevice::kCpu) return x.index_select(0, index);
  return differentiable("take_rows", {x}, [&]() -> Recorded {
    return {.results = {taken(x.contiguous(), index.contiguous())},
            .backward = [rows = index.contiguous(), tokens = x.size(0)](const BackwardCall& call) {
              return std::vector<Tensor>{summed(call.gradients[0].contiguous(), rows, tokens)};
            }};
  })[0];
}

Tensor sum_rows(const Tensor& y, const Tensor& index, int64_t tokens) {
  check("sum_rows", y, index, y.size(0), tokens);
  const ByDevice choice = choose_by_device("sum_rows", y, kLeftToLibtorch);
  if (choice == ByDevice::kMeta) return meta_results({y}, {{{tokens, y.size(1)}, y.scalar_type()}})[0];
  if (choice != ByDevice::kCpu) {
    const ScalarType wide = wide_type(y);
    return at::zeros({tokens, y.size(1)}, y.options().dtype(wide).requires_grad(false))
        .index_add(0, index, y.to(wide))
        .to(y.scalar_type());
  }
  return differentiable("sum_rows", {y}, [&]() -> Recorded {
    return {.results = {summed(y.contiguous(), index.contiguous(), tokens)},
            .backward = [rows = index.contiguous()](const BackwardCall& call) {
              return std::vector<Tensor>{taken(call.gradients[0].contiguous(), rows)};
            }};
  })[0];
}

}  // namespace longhaul::kernels
