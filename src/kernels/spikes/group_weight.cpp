#include "kernels/spikes/group_weight.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/memory/memory_purpose.h"

namespace longhaul::kernels {
namespace {

constexpr double kMostOfGroup = 127;
constexpr int64_t kGroupElementsAtOnce = 1 << 18;

// [n, in] fp32 → [n, groups, 128], zeros beyond `in`.
Tensor in_groups(const Tensor& rows) {
  const int64_t groups = (rows.size(1) + GroupWeight::kGroup - 1) / GroupWeight::kGroup;
  const Tensor padded = at::constant_pad_nd(rows, {0, groups * GroupWeight::kGroup - rows.size(1)});
  return padded.view({rows.size(0), groups, GroupWeight::kGroup});
}

struct Grouped {
  Tensor q, scale;  // [n, groups, 128] in fp32, [n, groups]
};
Grouped grouped(const Tensor& rows) {
  const Tensor wide = in_groups(rows);
  Tensor scale = wide.abs().amax(2).div(kMostOfGroup);
  scale.masked_fill_(scale.lt(std::numeric_limits<float>::min()), 0);
  const Tensor divisor = scale.masked_fill(scale.eq(0), std::numeric_limits<float>::max());
  return {wide.div(divisor.unsqueeze(2)).round(), scale};
}

}  // namespace

GroupWeight::GroupWeight(int64_t experts, int64_t out, int64_t in) : experts_(experts), out_(out), in_(in) {
  const MemoryPurposeScope scope(MemoryPurpose::kParameters);
  panels_ = at::zeros({experts, panels(), groups(), kGroup / 4, kColumns, 4}, at::kChar);
  scales_ = at::zeros({experts, panels(), groups(), kColumns}, at::kFloat);
  sums_ = at::zeros({experts, panels(), groups(), kColumns}, at::kInt);
}

void GroupWeight::write(int64_t expert, int64_t first, const Tensor& all_rows, const std::string& name) {
  LONGHAUL_ASSERT(
      all_rows.dim() == 2 && all_rows.size(1) == in_ && first >= 0 && first + all_rows.size(0) <= out_,
      "{} does not fit [{}, {}] from row {} on", name, out_, in_, first);
  if (in_ == 0) return;
  const at::NoGradGuard no_gradient;
  const int64_t end = first + all_rows.size(0);
  for (int64_t row = first; row < end;) {
    // The rest of a panel, or whole ones.
    const int64_t lane = row % kColumns, lanes = std::min(kColumns - lane, end - row);
    const int64_t most = std::max<int64_t>(1, kGroupElementsAtOnce / (kColumns * in_));
    const int64_t panels = lanes < kColumns ? 1 : std::min(most, (end - row) / kColumns);
    const int64_t count = panels * lanes;
    const Tensor wide = all_rows.narrow(0, row - first, count).to(at::kFloat);
    if (!wide.isfinite().all().item<bool>()) {
      throw Error({.code = ExitCode::kCheckpoint,
                   .what = "a weight that is not finite has no eight bits",
                   .expected = "finite numbers",
                   .found = "NaN or infinity",
                   .where = name,
                   .hint = "without --weights int8, or with spikes.weights = wide, it is taken as it is"});
    }
    const Grouped made = grouped(wide);
    const auto at_rows = [&](const Tensor& of, int64_t dimension) {
      return of[expert].narrow(0, row / kColumns, panels).narrow(dimension, lane, lanes);
    };
    at_rows(panels_, 3).copy_(made.q.view({panels, lanes, groups(), kGroup / 4, 4}).permute({0, 2, 3, 1, 4}));
    at_rows(scales_, 2).copy_(made.scale.view({panels, lanes, groups()}).transpose(1, 2));
    at_rows(sums_, 2).copy_(made.q.sum(2).view({panels, lanes, groups()}).transpose(1, 2));
    row += count;
  }
}

int64_t GroupWeight::bytes() const {
  return static_cast<int64_t>(panels_.nbytes() + scales_.nbytes() + sums_.nbytes());
}

Tensor GroupWeight::values(int64_t expert) const {
  return panels_[expert]
      .permute({0, 3, 1, 2, 4})
      .reshape({panels() * kColumns, groups() * kGroup})
      .narrow(0, 0, out_)
      .narrow(1, 0, in_)
      .contiguous();
}

Tensor GroupWeight::scales(int64_t expert) const {
  return scales_[expert].transpose(1, 2).reshape({panels() * kColumns, groups()}).narrow(0, 0, out_).clone();
}

Tensor GroupWeight::wide(int64_t expert) const {
  return values(expert).to(at::kFloat).mul(scales(expert).repeat_interleave(kGroup, 1).narrow(1, 0, in_));
}

// A product asks for every panel, so no tensor is made for the answer.
const int8_t* GroupWeight::panels_of(int64_t expert) const {
  return panels_.const_data_ptr<int8_t>() + expert * panels_.stride(0);
}
const float* GroupWeight::scales_of(int64_t expert) const {
  return scales_.const_data_ptr<float>() + expert * scales_.stride(0);
}
const int32_t* GroupWeight::sums_of(int64_t expert) const {
  return sums_.const_data_ptr<int32_t>() + expert * sums_.stride(0);
}

Tensor rounded_in_groups(const Tensor& weight) {
  const at::NoGradGuard no_gradient;
  const int64_t in = weight.size(-1);
  const Tensor rows = weight.detach().reshape({-1, in});
  Tensor rounded = at::empty_like(rows);
  if (in == 0) return rounded.view(weight.sizes());
  const int64_t at_once = std::max<int64_t>(1, kGroupElementsAtOnce / in);
  for (int64_t row = 0; row < rows.size(0); row += at_once) {
    const int64_t count = std::min(at_once, rows.size(0) - row);
    const Grouped made = grouped(rows.narrow(0, row, count).to(at::kFloat));
    const Tensor wide = made.q.mul(made.scale.unsqueeze(2)).view({count, -1}).narrow(1, 0, in);
    rounded.narrow(0, row, count).copy_(wide);
  }
  return rounded.view(weight.sizes());
}

}  // namespace longhaul::kernels
