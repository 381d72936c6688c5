#include "model/rotary.h"

#include <algorithm>
#include <cmath>

#include "base/threads/parallel.h"
#include "kernels/toeplitz/grid.h"
#include "tensor/device.h"
#include "tensor/to_tensor.h"

namespace longhaul::model {
namespace {

// (position + first) · frequency in fp64, for cosines and sines that a device forms itself: their tables are
// megabytes for each micro-batch, which the host would compute and copy while the device waits.
Tensor angles_on(at::Device device, std::span<const int64_t> positions, double first,
                 std::span<const double> frequencies) {
  const Tensor frequency = at::empty({static_cast<int64_t>(frequencies.size())}, at::kDouble);
  std::ranges::copy(frequencies, frequency.mutable_data_ptr<double>());
  return to_tensor(positions, device)
      .to(at::kDouble)
      .add(first)
      .unsqueeze(1)
      .mul(to_device(frequency, device));
}

kernels::TurnTable turns_on_cpu(std::span<const int64_t> positions, const std::vector<double>& frequencies,
                                double first, ScalarType type) {
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
  return {cos.to(type), sin.to(type)};
}

}  // namespace

const kernels::RotaryTable& RotaryTables::table(std::span<const int64_t> positions,
                                                std::span<const double> frequencies, ScalarType type,
                                                at::Device device) {
  const bool kept = table_.cos_tr.defined() && table_.cos_tr.scalar_type() == type &&
                    table_.cos_tr.device() == device && std::ranges::equal(frequencies, pair_frequencies_) &&
                    std::ranges::equal(positions, positions_);
  if (!kept) {
    if (device.is_cpu()) {
      table_ = kernels::rotary_table(positions, frequencies, type);
    } else {
      const Tensor angles = angles_on(device, positions, 0, frequencies);
      table_ = {angles.cos().to(type), angles.sin().to(type)};
    }
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
  if (device.is_cpu()) {
    turns_ = turns_on_cpu(positions, frequencies, first, type);
  } else {
    const Tensor angles = angles_on(device, positions, first, frequencies);
    turns_ = {angles.cos().to(type), angles.sin().to(type)};
  }
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
