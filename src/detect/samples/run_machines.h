// The machines of a run and what they drew, from the rings of its nodes (sample_ring.h): for its footprint, whose events are of the first rank's machine.
#pragma once

#include <filesystem>
#include <vector>

#include "plan/footprint/run_footprint.h"

namespace longhaul::detect {

// A machine each, by its kernel: nodes that share one are counted once. Rings that cannot be read are left out; none without rings.
std::vector<plan::RunMachine> machines_of_run(const std::filesystem::path& run_folder);

}  // namespace longhaul::detect
