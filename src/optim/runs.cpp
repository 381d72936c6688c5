#include "optim/runs.h"

#include "base/error.h"

namespace longhaul::optim {

std::vector<Run> runs_of(const model::Parameter& parameter, size_t part) {
  LONGHAUL_ASSERT(parameter.value.is_contiguous(), "{} is not stored in row-major order", parameter.name);
  const layout::Rectangle& slice = parameter.parts[part].slice;
  const layout::Rectangle whole = layout::Rectangle::whole(parameter.value.sizes().vec());
  LONGHAUL_ASSERT(whole.contains(slice), "{} {} leaves {}", parameter.parts[part].spec.tensor.name, slice.text(), whole.text());
  std::vector<Run> runs;
  for (const layout::CopyRun& run : layout::copy_plan(slice, whole, 1)) runs.push_back({run.target_offset, run.length});
  return runs;
}

}  // namespace longhaul::optim
