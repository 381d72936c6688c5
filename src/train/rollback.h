// What a rollback does on the disk: which checkpoint it goes back to, and that those after it, of a course of the run that is given up, are not taken for
// its newest ones.
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

// Where a rollback may go, the best first: the newest checkpoint at least `back` steps before `spike`, then those before it; then, in want
// of those, the oldest one that is before the spike. Whether they are whole is for who reads them.
std::vector<RollbackTarget> rollback_targets(const storage::FileSystem& files, const std::filesystem::path& checkpoints, int64_t spike,
                                             int64_t back);
// Removes the checkpoints of later steps, the last one first: a crash in between leaves a run that can go on. Those that are kept for good
// (a file of their name with ".keep" behind it) are moved aside, to given-up-NAME: no start takes them, and readers do that are given
// the path. How many there were.
int64_t give_up_later(storage::FileSystem& files, const std::filesystem::path& checkpoints, int64_t step);

}  // namespace longhaul::train
