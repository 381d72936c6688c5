#include "model/rotary.h"

#include <algorithm>

namespace longhaul::model {

const kernels::RotaryTable& RotaryTables::table(std::span<const int64_t> positions, int64_t dim, double base, ScalarType type) {
  const bool kept = table_.cos_tr.defined() && table_.cos_tr.scalar_type() == type && dim == dim_ && base == base_ &&
                    std::equal(positions.begin(), positions.end(), positions_.begin(), positions_.end());
  if (!kept) {
    table_ = kernels::rotary_table(positions, dim, base, type);
    positions_.assign(positions.begin(), positions.end());
    dim_ = dim;
    base_ = base;
  }
  return table_;
}

}  // namespace longhaul::model
