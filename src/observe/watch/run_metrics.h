// The metrics of runs, with the names of docs/guides/watch.md. Every series has the label job: the run
// folder's name. Values of ranks are given by node (the worst of its ranks), or on request by rank: a
// thousand ranks are a thousand series each.
#pragma once

#include <span>

#include "observe/open_metrics.h"
#include "observe/watch/live_run.h"

namespace longhaul::observe {

OpenMetrics run_metrics(std::span<const RunView* const> runs, bool by_rank = false);

}  // namespace longhaul::observe
