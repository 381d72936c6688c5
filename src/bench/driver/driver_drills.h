// The faults that drills inject from outside of a run's ranks (bench/driver/faults.h): into its driver, the
// daemons of its nodes, and the files that the driver writes.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/driver/faults.h"

namespace longhaul::bench {

// Whether the incident of this kind, if there is one, names no rank or node, because the fault hits the
// driver itself.
bool names_nobody(const std::string& kind);
// Of kinds whose incident is a node's, whichever of its ranks is told of.
bool names_a_node(const std::string& kind);

// Injects the fault while the drill's rank is held in the drill's step. status: the run's status, from its
// driver. Returns whether the driver has ended too, so that its command has to be run again.
bool do_from_outside(const Drill& drill, const std::filesystem::path& run, const nlohmann::json& status);

// Whether the drill is over, so that the run may meet its next fault. A driver that has lost its journal ends
// the ranks that it finds: a fault that they met meanwhile would end with their generation, and have no
// incident. generation: that of the drill's rank. status: the run's, from its driver.
bool next_fault_may_come(const Drill& drill, int64_t generation, const nlohmann::json& status);

// Acts between the end of a driver and the start of the next one.
void do_before_it_is_typed_again(const Drill& drill, const std::filesystem::path& run);

}  // namespace longhaul::bench
