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

// Of a run that has no checkpoint: kCheckpoint where its events say that it has saved. It does not begin anew by itself then, for a disk may
// not be mounted.
void refuse_lost_checkpoints(const std::filesystem::path& events, const std::filesystem::path& checkpoints);

// Whether an earlier process came to the end at this step, with all that follows the last step, and none has gone on since.
bool ended_at(const std::filesystem::path& events, int64_t step);

}  // namespace longhaul::train
