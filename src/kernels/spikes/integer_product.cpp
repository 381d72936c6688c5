#include "kernels/spikes/integer_product.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/documents.h"
#include "kernels/operator_clock.h"
#include "kernels/scratch.h"
#include "kernels/spikes/loops.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kRowsAtOnce = 256, kColumnsOfPanel = 16;
constexpr int64_t kIntegerGrain = 1 << 18;  // multiply-adds worth a thread

// A count that has no place in a byte: what is left of it.
struct Outlier {
  int64_t channel;
  float rest;
};

// Some tokens of x as bytes, with what is missing of them.
struct CountedRows {
  std::vector<uint8_t> bytes;
  std::vector<float> thresholds;
  std::vector<std::vector<Outlier>> outliers;
};

void check_integer(const char* op, const Tensor& x, const GroupWeight& weight) {
  if (x.dim() != 2 || x.size(1) != weight.in() || !x.is_cpu() ||
      (x.scalar_type() != at::kFloat && x.scalar_type() != at::kBFloat16))
    refuse_argument(op, "x", fmt::format("[tokens, {}] in bf16 or fp32 on cpu", weight.in()), shape_text(x));
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return;
  throw Error({.code = ExitCode::kUsage,
               .what = "products in whole numbers do not train",
               .expected = "an input without a gradient",
               .found = "one that wants a gradient",
               .where = op,
               .hint = "train with [spikes], which computes the same with wide numbers"});
}

void find_outliers(const float* counts, int64_t columns, std::vector<Outlier>& outliers) {
  for (int64_t i = 0; i < columns; ++i) {
    if (std::abs(counts[i]) <= 127) continue;
    if (!std::isfinite(counts[i])) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "an activation is not finite, and has no count of spikes",
                   .expected = "finite numbers",
                   .found = "NaN or infinity",
                   .where = fmt::format("channel {}", i),
                   .hint = "the same without --spikes shows whether the model itself is broken"});
    }
    outliers.push_back({i, counts[i] > 0 ? counts[i] - 127 : counts[i] + 127});
  }
}

CountedRows counted_rows(const Tensor& x, double k, const GroupWeight& weight) {
  const int64_t rows = x.size(0), padded = weight.groups() * GroupWeight::kGroup;
  CountedRows made{std::vector<uint8_t>(static_cast<size_t>(rows * padded)),
                   std::vector<float>(static_cast<size_t>(rows)),
                   std::vector<std::vector<Outlier>>(static_cast<size_t>(rows))};
  const Storage storage = storage_of(x);
  const auto* const from = static_cast<const std::byte*>(pointer_to(x));
  const int64_t bytes = x.stride(0) * x.element_size();
  const int64_t grain = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, x.size(1)));
  parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> counts(static_cast<size_t>(x.size(1)));
    for (int64_t t = begin; t < end; ++t) {
      const auto row = static_cast<size_t>(t);
      const SpikeRow of{.storage = storage, .x = from + t * bytes, .columns = x.size(1), .k = k};
      made.thresholds[row] = count_spikes(of, counts.data());
      if (counts_as_bytes(counts.data(), x.size(1), padded, made.bytes.data() + t * padded) > 0)
        find_outliers(counts.data(), x.size(1), made.outliers[row]);
    }
  });
  return made;
}

// y += scale · rest · q of one panel and channel.
void add_outlier(const GroupWeight& weight, int64_t expert, int64_t panel, const Outlier& outlier, float* y) {
  const int64_t group = outlier.channel / GroupWeight::kGroup, within = outlier.channel % GroupWeight::kGroup;
  const int64_t at = panel * weight.groups() + group;
  const int8_t* const q =
      weight.panels_of(expert) + at * GroupWeight::kGroup * kColumnsOfPanel + within / 4 * 64 + within % 4;
  const float* const scale = weight.scales_of(expert) + at * kColumnsOfPanel;
  for (int64_t j = 0; j < kColumnsOfPanel; ++j)
    y[j] += scale[j] * (outlier.rest * static_cast<float>(q[4 * j]));
}

template <class Element>
void store_panel(const float* sums, float threshold, const Element* bias, int64_t columns, Element* y) {
  for (int64_t j = 0; j < columns; ++j) {
    const float product = threshold * sums[j];
    y[j] = static_cast<Element>(bias == nullptr ? product : product + static_cast<float>(bias[j]));
  }
}

// A few panels for all these rows, on the calling thread.
template <class Element>
void multiply_panels_of(const GroupWeight& weight, int64_t expert, const CountedRows& counted,
                        const Element* bias, int64_t first, int64_t last, Element* y) {
  static thread_local Scratch scratch;
  const auto rows = static_cast<int64_t>(counted.thresholds.size());
  float* const sums = scratch.take<float>(rows * kColumnsOfPanel);
  const int64_t of_panel = weight.groups() * kColumnsOfPanel;
  for (int64_t panel = first; panel < last; ++panel) {
    multiply_integers({.bytes = counted.bytes.data(),
                       .rows = rows,
                       .groups = weight.groups(),
                       .panels = weight.panels_of(expert) + panel * of_panel * GroupWeight::kGroup,
                       .scales = weight.scales_of(expert) + panel * of_panel,
                       .sums = weight.sums_of(expert) + panel * of_panel,
                       .panel_count = 1,
                       .y = sums,
                       .ldy = kColumnsOfPanel});
    const int64_t column = panel * kColumnsOfPanel,
                  columns = std::min(kColumnsOfPanel, weight.out() - column);
    for (int64_t t = 0; t < rows; ++t) {
      float* const of_row = sums + t * kColumnsOfPanel;
      for (const Outlier& outlier : counted.outliers[static_cast<size_t>(t)])
        add_outlier(weight, expert, panel, outlier, of_row);
      store_panel(of_row, counted.thresholds[static_cast<size_t>(t)],
                  bias == nullptr ? nullptr : bias + column, columns, y + t * weight.out() + column);
    }
  }
}

template <class Element>
void integer_rows(const Tensor& x, double k, const GroupWeight& weight, int64_t expert, const Tensor& bias,
                  const Tensor& y) {
  const Element* const b = bias.defined() ? bias.const_data_ptr<Element>() : nullptr;
  for (int64_t begin = 0; begin < x.size(0); begin += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, x.size(0) - begin);
    const CountedRows counted = counted_rows(x.narrow(0, begin, rows), k, weight);
    Element* const to = y.mutable_data_ptr<Element>() + begin * weight.out();
    const int64_t cost = std::max<int64_t>(1, rows * weight.in() * kColumnsOfPanel);
    parallel_for(0, weight.panels(), std::max<int64_t>(1, kIntegerGrain / cost),
                 [&](int64_t first, int64_t last) {
                   multiply_panels_of(weight, expert, counted, b, first, last, to);
                 });
  }
}

void into(const Tensor& given, double k, const GroupWeight& weight, int64_t expert, const Tensor& bias,
          const Tensor& y) {
  const Tensor x = given.numel() == 0 || given.stride(1) == 1 ? given : given.contiguous();
  if (x.scalar_type() == at::kFloat) return integer_rows<float>(x, k, weight, expert, bias, y);
  integer_rows<at::BFloat16>(x, k, weight, expert, bias, y);
}

}  // namespace

Tensor integer_linear(const Tensor& x, double k, const GroupWeight& weight, const Tensor& bias) {
  check_integer("integer_linear", x, weight);
  LONGHAUL_ASSERT(weight.experts() == 1, "a product with {} experts", weight.experts());
  const OperatorFrame frame("integer_linear");
  const Tensor y = at::empty({x.size(0), weight.out()}, x.options().requires_grad(false));
  into(x, k, weight, 0, bias.defined() ? bias.to(x.scalar_type()).contiguous() : bias, y);
  return y;
}

Tensor integer_grouped_linear(const Tensor& x, const std::vector<int64_t>& rows_per_expert, double k,
                              const GroupWeight& weight) {
  check_integer("integer_grouped_linear", x, weight);
  const OperatorFrame frame("integer_grouped_linear");
  const Tensor y = at::empty({x.size(0), weight.out()}, x.options().requires_grad(false));
  int64_t begin = 0;
  for (size_t e = 0; e < rows_per_expert.size(); ++e) {
    const int64_t rows = rows_per_expert[e];
    if (rows > 0)
      into(x.narrow(0, begin, rows), k, weight, static_cast<int64_t>(e), {}, y.narrow(0, begin, rows));
    begin += rows;
  }
  return y;
}

}  // namespace longhaul::kernels
