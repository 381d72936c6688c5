// The checkpoint a start goes on from: of all that the memory of nodes and the disk hold the newest that is whole. Newest means the latest
// start of the run, then the highest step; of two that are equal, the one in memory. Nobody reads the disk's files where memory has the
// newer one.
#pragma once

#include <filesystem>

#include "train/memory_checkpoints.h"

namespace longhaul::train {

struct NewestCheckpoint {
  std::optional<storage::Checkpoint> checkpoint;  // none: the run begins
  bool in_memory = false;
  int64_t disk_step = -1;  // of the newest on the disk; −1: there is none
};

// A collective call. kCheckpoint where there are only damaged ones.
NewestCheckpoint newest_checkpoint(storage::FileSystem& files, const std::filesystem::path& run_folder, const checkpoint::Writers& together,
                                   MemoryCheckpoints& memory, checkpoint::Providers state);

}  // namespace longhaul::train
