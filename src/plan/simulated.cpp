#include "plan/simulated.h"

namespace longhaul::plan {

std::optional<layout::Timeline> simulated(const PlanLayout& plan, int64_t micro_batches,
                                          const StepParts& parts, int64_t most_actions) {
  constexpr int64_t kActionsOfAPass = 6;
  if (plan.pp == 1 || plan.pp * plan.chunks * micro_batches * 2 * kActionsOfAPass > most_actions)
    return std::nullopt;
  const layout::Pipeline pipeline(
      plan.pp, {.schedule = plan.schedule, .chunks = plan.chunks, .pairs_in_turns = plan.pairs_in_turns});
  return layout::simulate(layout::make_schedule(pipeline, micro_batches),
                          {.forward = parts.forward,
                           .backward_input = parts.backward_input,
                           .backward_weight = parts.backward_weight,
                           .transfer = parts.transfer / static_cast<double>(plan.visits()),
                           .exchange = parts.expert_exchange / static_cast<double>(2 * micro_batches)});
}

std::optional<double> simulated_seconds(const PlanLayout& plan, int64_t micro_batches,
                                        const StepParts& parts) {
  const auto timeline = simulated(plan, micro_batches, parts);
  if (!timeline) return std::nullopt;
  return timeline->makespan + parts.head + parts.gradients + parts.update + parts.offload + parts.fixed;
}

}  // namespace longhaul::plan
