#include "model/rotary.h"

#include <algorithm>
#include <cmath>

#include "base/threads/parallel.h"
#include "kernels/toeplitz/grid.h"
#include "tensor/device.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {

const kernels::RotaryTable& RotaryTables::table(std::span<const int64_t> positions,
                                                std::span<const double> frequencies, ScalarType type,
                                                at::Device device) {
  const bool kept = table_.cos_tr.defined() && table_.cos_tr.scalar_type() == type &&
                    table_.cos_tr.device() == device && std::ranges::equal(frequencies, pair_frequencies_) &&
                    std::ranges::equal(positions, positions_);
  if (!kept) {
    const kernels::RotaryTable formed = kernels::rotary_table(positions, frequencies, type);
    table_ = {to_device(formed.cos_tr, device), to_device(formed.sin_tr, device)};
    positions_.assign(positions.begin(), positions.end());
    pair_frequencies_.assign(frequencies.begin(), frequencies.end());
  }
  return table_;
}

const kernels::TurnTable& RotaryTables::turns(std::span<const int64_t> positions,
                                              const std::vector<double>& frequencies, double first,
                                              ScalarType type, at::Device device) {
  const bool kept = turns_.cos_tr.defined() && turns_.cos_tr.scalar_type() == type &&
                    turns_.cos_tr.device() == device && first == first_ &&
                    std::ranges::equal(positions, turned_positions_) && frequencies == frequencies_;
  if (kept) return turns_;
  const auto tokens = static_cast<int64_t>(positions.size()),
             count = static_cast<int64_t>(frequencies.size());
  const Tensor cos = at::empty({tokens, count}, at::kDouble), sin = at::empty_like(cos);
  auto *const c = cos.mutable_data_ptr<double>(), *const s = sin.mutable_data_ptr<double>();
  parallel_for(0, tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const double position = static_cast<double>(positions[static_cast<size_t>(t)]) + first;
      for (int64_t m = 0; m < count; ++m)
        ::sincos(position * frequencies[static_cast<size_t>(m)], s + t * count + m, c + t * count + m);
    }
  });
  turns_ = {to_device(cos.to(type), device), to_device(sin.to(type), device)};
  turned_positions_.assign(positions.begin(), positions.end());
  frequencies_ = frequencies;
  first_ = first;
  return turns_;
}

const kernels::TurnTable& RotaryTables::turns_on_grid(std::span<const int64_t> positions,
                                                      const std::vector<int64_t>& grid, int64_t angles,
                                                      ScalarType type, at::Device device) {
  const Tensor& cos = grid_turns_.cos_tr;
  const bool kept = cos.defined() && cos.scalar_type() == type && cos.device() == device &&
                    cos.size(1) == angles && grid == grid_ && std::ranges::equal(positions, grid_positions_);
  if (kept) return grid_turns_;
  constexpr double kBase = 10000;
  const kernels::TurnTable places =
      kernels::turns_of_grids({&grid, 1}, angles, angles, kBase, type, at::kCPU, /*plain=*/1);
  std::vector<int64_t> place(positions.begin(), positions.end());
  for (int64_t& p : place) p = p < places.cos_tr.size(0) ? p : 0;
  const Tensor index = to_tensor(place);
  grid_turns_ = {to_device(places.cos_tr.index_select(0, index), device),
                 to_device(places.sin_tr.index_select(0, index), device)};
  grid_positions_.assign(positions.begin(), positions.end());
  grid_ = grid;
  return grid_turns_;
}

}  // namespace longhaul::model
