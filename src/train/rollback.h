// What a rollback does on the disk: it chooses the checkpoint to return to, and it makes sure that later
// checkpoints, which belong to the abandoned course of the run, are not taken for the newest ones.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "storage/file_system.h"

namespace longhaul::train {

struct RollbackTarget {
  std::string name;  // of the checkpoint's folder
  int64_t step = 0;
};

// The checkpoints that a rollback may return to, best first: the newest one at least `back` steps before
// `spike`, then earlier ones; then, if there are none of those, the oldest one before the spike. The reader
// finds out whether they are whole.
std::vector<RollbackTarget> rollback_targets(const storage::FileSystem& files,
                                             const std::filesystem::path& checkpoints, int64_t spike,
                                             int64_t back);
// Removes the checkpoints of later steps, the last one first: a crash in between leaves a run that can go on.
// Those that are kept for good (a file of their name with ".keep" behind it) are moved aside, to
// given-up-NAME: no start takes them, and readers do that are given the path. How many there were.
int64_t give_up_later(storage::FileSystem& files, const std::filesystem::path& checkpoints, int64_t step);

}  // namespace longhaul::train
