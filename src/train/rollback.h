// What a rollback does on the disk: which checkpoint it goes back to, and that those after it, of a course of the run that is given up, are not taken for
// its newest ones.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "storage/file_system.h"

namespace longhaul::train {

struct RollbackTarget {
  std::string name;  // of the checkpoint's folder
  int64_t step = 0;
};

// The newest whole checkpoint at least `back` steps before `spike`; where there is none, the oldest one that is before it. Every byte of it is read.
std::optional<RollbackTarget> rollback_target(const storage::FileSystem& files, const std::filesystem::path& checkpoints, int64_t spike,
                                              int64_t back);
// Removes the checkpoints of later steps, the last one first: a crash in between leaves a run that can go on. How many there were.
int64_t give_up_later(storage::FileSystem& files, const std::filesystem::path& checkpoints, int64_t step);

}  // namespace longhaul::train
