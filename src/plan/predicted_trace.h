// The predicted step of a plan in the form of a recorded step's trace (observe/trace/trace_file.h), so that
// one viewer shows both. The event engine plays the passes from the schedule's own lists of actions
// (simulated.h), or one after the other where there is no pipeline. In each pass the exchanges of tensor,
// context and expert ranks are one call at its end; after the passes come the gradient reduction and the
// update. Ranks of one stage do the same at the same time.
//
// In a pipeline the output head follows the passes in one piece ("numbers"), as in the formulas, and messages
// between stages are the gaps that they leave. Busy time, waiting in calls and idle time of a rank sum to the
// step (observe/trace/time_use.h).
#pragma once

#include <vector>

#include "observe/trace/timeline.h"
#include "plan/step_time.h"

namespace longhaul::plan {

// One rank per stage, with its number among all ranks: data, context and tensor rank 0 of each.
std::vector<observe::TraceRank> ranks_of_stages(const PlanLayout& layout);

// The trace of step `step`, which begins at `begin_ns`. Rank numbers begin at observe::kFirstPlannedRank.
// Error 65 where the schedule's lists are too long to play.
std::vector<observe::RankTrace> predicted_trace(const PlanLayout& layout, int64_t batch,
                                                const StepParts& parts,
                                                const std::vector<observe::TraceRank>& ranks, int64_t step,
                                                int64_t begin_ns);

}  // namespace longhaul::plan
