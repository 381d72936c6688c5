#include "posttrain/reinforce/reinforce_plan.h"

#include "base/error.h"

namespace longhaul::posttrain {

void ReinforcePlan::require_possible(const parallel::Arrangement& arrangement) const {
  DecoderPlan::require_possible(arrangement);
  const bool whole =
      arrangement.mesh.size(layout::Axis::kDp) == arrangement.mesh.world() && arrangement.zero < 3;
  if (whole && arrangement.workers == 1) return;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "reinforcement learning generates with the trainer's own weights, so a rank must hold the "
               "whole model",
       .expected = "data-parallel ranks (tp, pp, cp and ep of 1), parallel.zero up to 2, and no outer loop",
       .found = arrangement.mesh.text() + (arrangement.zero == 3 ? ", zero 3" : "") +
                (arrangement.workers > 1 ? ", several workers" : ""),
       .where = "[parallel]",
       .hint = "parallel.tp=1 parallel.zero=2"});
}

void ReinforcePlan::require_batch(const std::string& /*where*/, int64_t /*batch*/,
                                  int64_t /*replicas*/) const {}

}  // namespace longhaul::posttrain
