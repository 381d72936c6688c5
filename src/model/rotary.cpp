#include "model/rotary.h"

#include <algorithm>

#include "tensor/device.h"

namespace longhaul::model {

const kernels::RotaryTable& RotaryTables::table(std::span<const int64_t> positions, int64_t dim, double base, ScalarType type,
                                                at::Device device) {
  const bool kept = table_.cos_tr.defined() && table_.cos_tr.scalar_type() == type && table_.cos_tr.device() == device && dim == dim_ &&
                    base == base_ && std::equal(positions.begin(), positions.end(), positions_.begin(), positions_.end());
  if (!kept) {
    const kernels::RotaryTable formed = kernels::rotary_table(positions, dim, base, type);
    table_ = {to_device(formed.cos_tr, device), to_device(formed.sin_tr, device)};
    positions_.assign(positions.begin(), positions.end());
    dim_ = dim;
    base_ = base;
  }
  return table_;
}

}  // namespace longhaul::model
