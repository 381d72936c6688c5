// The step that a plan predicts as the trace of a step that was recorded (observe/trace/trace_file.h), so that one viewer shows both. Passes as the event
// engine plays the schedule's own lists of actions (simulated.h), or one after the other where there is no pipeline; in each what tensor, context and
// expert ranks exchange as one call at its end; behind them the sum of gradients and the update. Ranks of one stage do the same at the same time.
//
// Of a pipeline the output head stands behind the passes in one piece ("numbers"), as the formulas count it, and messages between stages are the gaps
// they leave. Busy time, calls that stand still and idle time of a rank sum to the step (observe/trace/time_use.h).
#pragma once

#include <vector>

#include "observe/trace/timeline.h"
#include "plan/step_time.h"

namespace longhaul::plan {

// One rank a stage, by its number among all: data, context and tensor rank 0 of each.
std::vector<observe::TraceRank> ranks_of_stages(const PlanLayout& layout);

// Of step `step`, from `begin_ns` on. Numbers of ranks begin at observe::kFirstPlannedRank. Error 65 where the schedule's lists are too long to play.
std::vector<observe::RankTrace> predicted_trace(const PlanLayout& layout, int64_t batch, const StepParts& parts,
                                                const std::vector<observe::TraceRank>& ranks, int64_t step, int64_t begin_ns);

}  // namespace longhaul::plan
