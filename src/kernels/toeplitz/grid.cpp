#include "kernels/toeplitz/grid.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/documents.h"
#include "kernels/toeplitz/op.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kGrids = "toeplitz_of_grids";

int64_t product_of(std::span<const int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Grids of one shape, side by side: [count · tokens of one, d].
Tensor along_axes(const Tensor& x, int64_t count, const GridSizes& sizes,
                  std::span<const ToeplitzAxis> axes) {
  Tensor sum;
  for (size_t a = 0; a < axes.size(); ++a) {
    const std::span<const int64_t> all(sizes);
    const int64_t outer = count * product_of(all.first(a)), length = sizes[a],
                  inner = product_of(all.subspan(a + 1)), lines = outer * inner;
    // Along the axis tokens must be neighbours: each line a document.
    const Tensor in_lines =
        x.view({outer, length, inner, x.size(1)}).transpose(1, 2).reshape({lines * length, x.size(1)});
    std::vector<int64_t> offsets;
    for (int64_t line = 0; line <= lines; ++line) offsets.push_back(line * length);
    const Tensor y = toeplitz(in_lines, axes[a].coefficient_de, axes[a].log_decay_e, to_tensor(offsets),
                              Tensor(), /*with_state=*/false)
                         .y_td;
    const Tensor back = y.view({outer, inner, length, x.size(1)}).transpose(1, 2).reshape(x.sizes());
    sum = sum.defined() ? sum + back : back;
  }
  return sum;
}

}  // namespace

Tensor toeplitz_of_grids(const Tensor& x, std::span<const GridSizes> grids,
                         std::span<const ToeplitzAxis> axes) {
  if (axes.empty()) refuse_argument(kGrids, "axes", "parameters of at least one axis", "none");
  int64_t tokens = 0;
  for (const GridSizes& grid : grids) {
    if (grid.size() != axes.size())
      refuse_argument(kGrids, "grids", fmt::format("{} axes each", axes.size()),
                      fmt::format("{}", grid.size()));
    tokens += product_of(grid);
  }
  if (x.dim() != 2 || x.size(0) != tokens)
    refuse_argument(kGrids, "x", fmt::format("[{}, channels]", tokens), shape_text(x));
  const Tensor rows = x.contiguous();
  std::vector<Tensor> parts{rows.narrow(0, 0, 0)};
  int64_t begin = 0;
  for (size_t n = 0; n < grids.size();) {
    size_t end = n + 1;
    while (end < grids.size() && grids[end] == grids[n]) ++end;
    const int64_t count = static_cast<int64_t>(end - n), length = count * product_of(grids[n]);
    if (length > 0) parts.push_back(along_axes(rows.narrow(0, begin, length), count, grids[n], axes));
    begin += length;
    n = end;
  }
  return parts.size() == 2 ? parts[1] : at::cat(parts);
}

TurnTable turns_of_grids(std::span<const GridSizes> grids, int64_t angles, int64_t head_dim, double base,
                         ScalarType type, at::Device device, int64_t plain) {
  std::vector<double> table;
  for (const GridSizes& grid : grids) {
    table.insert(table.end(), static_cast<size_t>(plain * angles), 0.0);
    const auto axes = static_cast<int64_t>(grid.size());
    const int64_t of_axis = (angles + axes - 1) / std::max<int64_t>(1, axes);
    for (int64_t t = 0; t < product_of(grid); ++t) {
      GridSizes place(grid.size());
      int64_t rest = t;
      for (size_t a = grid.size(); a-- > 0; rest /= grid[a]) place[a] = rest % grid[a];
      for (int64_t i = 0; i < angles; ++i) {
        const double frequency =
            std::pow(base, -2.0 * static_cast<double>(i % of_axis) / static_cast<double>(head_dim));
        table.push_back(static_cast<double>(place[static_cast<size_t>(i / of_axis)]) * frequency);
      }
    }
  }
  const Tensor angle = at::tensor(table, at::kDouble).view({-1, angles});
  return {angle.cos().to(device, type), angle.sin().to(device, type)};
}

}  // namespace longhaul::kernels
