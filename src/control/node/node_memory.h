// What a node keeps of a run in shared memory, so that it outlives the run's ranks: boards, and checkpoints
// (storage/node_tier.h). One folder a node, /dev/shm/longhaul-USER-RUN/NODE; while a daemon of that name lives
// somewhere on this machine, its lock is held.
//
//   node_folder(run, "node-0") / "memory"
//   release_memory(run, "node-0", committed_step);     // when the run has ended there
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace longhaul::control {

std::filesystem::path node_folder(const std::string& run, const std::string& node);  // run: its folder's or job's name
std::filesystem::path node_lock(const std::string& run, const std::string& node);
bool node_lives(const std::string& run, const std::string& node);

// The newest step of which anything lies in a node's folder; -1: nothing does.
int64_t newest_step_in_memory(const std::filesystem::path& node_folder);

// What is in memory goes where the run's disk has as new a state, or no process will read it again; else boards alone go.
// The lock's holder calls it. → what stays, as a sentence for people; empty: nothing does.
std::string release_memory(const std::string& run, const std::string& node, int64_t committed_step);

// Folders of this user's runs in `memory` whose daemons have all ended, and which nobody has changed for so long, go.
// → what went
std::vector<std::filesystem::path> forget_abandoned_runs(double older_than_s, const std::filesystem::path& memory = "/dev/shm");

}  // namespace longhaul::control
