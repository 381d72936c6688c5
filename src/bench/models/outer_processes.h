// The benchmark of outer loops with workers that are processes: this program is started once for each
// worker. The workers meet as the ranks of `launch` do (comm::join_world: through shared memory, or over
// the loopback), each with its share of the cores.
#pragma once

#include <filesystem>

#include "bench/models/outer.h"

namespace longhaul::bench {

// One measurement. Error 69 when a worker fails, with its output.
OuterRow measure_outer_in_processes(const OuterRequest& request, int64_t workers);

// The work of each worker process: `bench outer --as-rank FOLDER`.
void measure_outer_as_rank(const std::filesystem::path& folder);

}  // namespace longhaul::bench
