// The second engine: the very lists of actions that would train (layout/schedule/schedule.h), played with the times of the closed formulas. It sees what the
// formulas do not: sends that overlap passes, rounds that are not full, schedules without a formula.
#pragma once

#include <optional>

#include "layout/schedule/schedule_check.h"
#include "plan/step_time.h"

namespace longhaul::plan {

// Passes alone, of one step: without head, gradients and update. Empty where there is no pipeline, or where the lists would be longer than
// `most_actions`.
std::optional<layout::Timeline> simulated(const PlanLayout& layout, int64_t micro_batches, const StepParts& parts,
                                          int64_t most_actions = 20'000);

// The whole step by that engine.
std::optional<double> simulated_seconds(const PlanLayout& layout, int64_t micro_batches, const StepParts& parts);

}  // namespace longhaul::plan
