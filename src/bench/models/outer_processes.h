// The bench of outer loops on workers that are processes: this program started once a worker, which meet as ranks of `launch` do (comm::join_world:
// through memory that they share, or over the loopback), each with its share of the cores.
#pragma once

#include <filesystem>

#include "bench/models/outer.h"

namespace longhaul::bench {

// One call. Error 69 where a worker fails, with what it said.
OuterRow measure_outer_in_processes(const OuterRequest& request, int64_t workers);

// What each of them does: `bench outer --as-rank FOLDER`.
void measure_outer_as_rank(const std::filesystem::path& folder);

}  // namespace longhaul::bench
