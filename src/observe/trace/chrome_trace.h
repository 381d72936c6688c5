// A trace as Chrome's JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open: a process a rank; in it a row for what the computing thread
// did, one for each kind of group that it talked in, one for waiting for data and one for checkpoints. Slices of a row lie in each other or apart: calls
// that overlap get a second row. Arrows run from sends to their receives. Times begin at the first step shown.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::observe {

void write_chrome_trace(const std::vector<RankTrace>& ranks, const std::function<void(std::string_view)>& write);

}  // namespace longhaul::observe
