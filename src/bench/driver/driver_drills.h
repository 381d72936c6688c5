// What drills do to a run from outside of its ranks (bench/driver/faults.h): to its driver, to the daemons of its nodes, to what the driver writes.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/driver/faults.h"

namespace longhaul::bench {

// Of kinds whose incident, if there is one, names nobody: whoever looks at the driver knows.
bool names_nobody(const std::string& kind);
// Of kinds whose incident is a node's, whichever of its ranks is told of.
bool names_a_node(const std::string& kind);

// While the drill's rank takes its time in the drill's step. status: of the run, by its driver. → whether the driver is gone with it, so that its
// command has to be typed again.
bool do_from_outside(const Drill& drill, const std::filesystem::path& run, const nlohmann::json& status);

// Between the end of a driver that is gone and the next one.
void do_before_it_is_typed_again(const Drill& drill, const std::filesystem::path& run);

}  // namespace longhaul::bench
