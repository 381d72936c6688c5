// The second engine: it plays the lists of actions of the real training (layout/schedule/schedule.h) with the
// times of the closed formulas. It includes effects that the formulas do not have: sends that overlap passes,
// incomplete rounds, schedules without a formula.
#pragma once

#include <optional>

#include "layout/schedule/schedule_check.h"
#include "plan/step_time.h"

namespace longhaul::plan {

// Only the passes of one step: without head, gradients and update. Empty where there is no pipeline, or where
// the lists would be longer than `most_actions`.
std::optional<layout::Timeline> simulated(const PlanLayout& layout, int64_t micro_batches,
                                          const StepParts& parts, int64_t most_actions = 20'000);

// The time of the whole step by this engine.
std::optional<double> simulated_seconds(const PlanLayout& layout, int64_t micro_batches,
                                        const StepParts& parts);

}  // namespace longhaul::plan
