#include "kernels/spikes/calibration.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/spikes/group_weight.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kElementsTried = int64_t{1} << 20;  // at once
constexpr int kTried = 26;                            // 1, 0.98 … 0.5

// Groups [rows, groups, 128] and weights of squares [groups, 128]: each group clipped where it is best.
Tensor clipped(const Tensor& group_rgi, const Tensor& square_gi) {
  const Tensor largest = group_rgi.abs().amax(2, true);
  Tensor best = group_rgi, least;
  for (int i = 0; i < kTried; ++i) {
    const Tensor bound = largest.mul(1 - 0.02 * i), scale = bound.div(127).clamp_min(1e-37);
    const Tensor kept = group_rgi.clamp(bound.neg(), bound);
    const Tensor error =
        group_rgi.sub(kept.div(scale).round().mul(scale)).square().mul(square_gi).sum(2, true);
    if (i == 0) {
      least = error;
      continue;
    }
    const Tensor better = error.lt(least);
    best = at::where(better, kept, best);
    least = at::where(better, error, least);
  }
  return best;
}

}  // namespace

Tensor clipped_by_groups(const Tensor& weight, const Tensor& square) {
  const at::NoGradGuard no_gradient;
  const int64_t in = weight.size(1), groups = (in + GroupWeight::kGroup - 1) / GroupWeight::kGroup;
  LONGHAUL_ASSERT(square.dim() == 1 && square.size(0) == in, "squares of {} inputs for {}", square.numel(),
                  in);
  const auto in_groups = [&](const Tensor& of) {
    return at::constant_pad_nd(of.to(at::kFloat), {0, groups * GroupWeight::kGroup - in})
        .unflatten(-1, {groups, GroupWeight::kGroup});
  };
  const Tensor square_gi = in_groups(square);
  const Tensor made = at::empty(weight.sizes(), weight.options().dtype(at::kFloat).requires_grad(false));
  const int64_t at_once = std::max<int64_t>(1, kElementsTried / std::max<int64_t>(1, in));
  for (int64_t row = 0; row < weight.size(0); row += at_once) {
    const int64_t rows = std::min(at_once, weight.size(0) - row);
    const Tensor best = clipped(in_groups(weight.narrow(0, row, rows)), square_gi);
    made.narrow(0, row, rows).copy_(best.flatten(1).narrow(1, 0, in));
  }
  return made;
}

}  // namespace longhaul::kernels
