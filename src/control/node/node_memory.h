// The part of a run that a node keeps in shared memory, so that it outlives the run's ranks: boards and
// checkpoints (storage/node_tier.h). Each node has one folder, /dev/shm/longhaul-USER-RUN/NODE. While a
// daemon of that name lives somewhere on this machine, it holds the folder's lock.
//
//   node_folder(run, "node-0") / "memory"
//   release_memory(run, "node-0", committed_step);     // when the run has ended on this node
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longhaul::control {

// run: the name of its folder or job
std::filesystem::path node_folder(const std::string& run, const std::string& node);
std::filesystem::path node_lock(const std::string& run, const std::string& node);
bool node_lives(const std::string& run, const std::string& node);

// The newest step of which a node's folder holds anything; -1: it holds nothing.
int64_t newest_step_in_memory(const std::filesystem::path& node_folder);

// Removes the checkpoints in memory if the run's disk has as new a state, or if no process will read them
// again; else it removes the boards only. Only the holder of the lock calls it. Returns a sentence for people
// about what stays; empty: nothing stays.
std::string release_memory(const std::string& run, const std::string& node, int64_t committed_step);

// Removes the folders of this user's runs in `memory` whose daemons have all ended and which have not changed
// for older_than_s. Returns the removed folders.
std::vector<std::filesystem::path> forget_abandoned_runs(double older_than_s,
                                                         const std::filesystem::path& memory = "/dev/shm");

}  // namespace longhaul::control
