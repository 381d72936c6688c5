// The angles of rotary positions (kernels/heads), formed once for the layers of one forward pass that all
// need the same.
#pragma once

#include <span>
#include <vector>

#include "kernels/feature_maps/op.h"
#include "kernels/rotary_heads/op.h"

namespace longhaul::model {

class RotaryTables {
 public:
  // The last table is kept: asking again with the same arguments costs a comparison of the positions.
  const kernels::RotaryTable& table(std::span<const int64_t> positions, std::span<const double> frequencies,
                                    ScalarType type, at::Device device);
  // Of fixed frequencies: the angles (position + first) · frequency, formed in fp64.
  const kernels::TurnTable& turns(std::span<const int64_t> positions, const std::vector<double>& frequencies,
                                  double first, ScalarType type, at::Device device);
  // Of places on a grid (MD-LRPE, kernels/toeplitz/grid.h), `angles` of a head for all heads alike: position
  // p stands at token p − 1 of the grid. Position 0 and what lies beyond the grid (padding: documents are
  // checked where they are read) stand nowhere: angle 0.
  const kernels::TurnTable& turns_on_grid(std::span<const int64_t> positions,
                                          const std::vector<int64_t>& grid, int64_t angles, ScalarType type,
                                          at::Device device);

 private:
  std::vector<int64_t> positions_;
  std::vector<double> pair_frequencies_;  // of pairs of channels
  kernels::RotaryTable table_;
  std::vector<int64_t> turned_positions_;
  std::vector<double> frequencies_;
  double first_ = 0;
  kernels::TurnTable turns_;
  std::vector<int64_t> grid_positions_, grid_;
  kernels::TurnTable grid_turns_;
};

}  // namespace longhaul::model
