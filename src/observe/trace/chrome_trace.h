// Writes a trace as Chrome's JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open. Each rank is a
// process with a row for the work of the computing thread, one for each kind of group in which it
// communicated, one for waiting for data and one for checkpoints. Slices of a row are nested or disjoint:
// overlapping calls get a second row. Arrows run from sends to their receives. Times begin at the first step
// shown.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::observe {

void write_chrome_trace(const std::vector<RankTrace>& ranks,
                        const std::function<void(std::string_view)>& write);

}  // namespace longhaul::observe
