// The machines of a run and their power draw, from the sample rings of its nodes (sample_ring.h). The run's
// footprint uses them, because its events only cover the machine of the first rank.
#pragma once

#include <filesystem>
#include <vector>

#include "plan/footprint/run_footprint.h"

namespace longhaul::detect {

// One entry per machine, identified by its kernel's boot: nodes that share one are counted once. Rings that
// cannot be read are left out; without rings the list is empty.
std::vector<plan::RunMachine> machines_of_run(const std::filesystem::path& run_folder);

}  // namespace longhaul::detect
