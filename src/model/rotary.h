// The angles of rotary positions (kernels/heads), formed once for the layers of one forward pass that all need the same.
#pragma once

#include <span>
#include <vector>

#include "kernels/heads/op.h"

namespace longhaul::model {

class RotaryTables {
 public:
  // The last table is kept: asking again with the same arguments costs a comparison of the positions.
  const kernels::RotaryTable& table(std::span<const int64_t> positions, int64_t dim, double base, ScalarType type, at::Device device);

 private:
  std::vector<int64_t> positions_;
  int64_t dim_ = 0;
  double base_ = 0;
  kernels::RotaryTable table_;
};

}  // namespace longhaul::model
