// The checkpoint from which a start continues: the newest whole one among those in the memory of nodes and
// those on the disk. Newest means the latest start of the run, then the highest step; of two equal ones, the
// one in memory is taken. The files on the disk are not read where memory has a newer checkpoint.
#pragma once

#include <filesystem>

#include "storage/lease.h"
#include "train/saving/memory_checkpoints.h"

namespace longhaul::train {

struct NewestCheckpoint {
  std::optional<storage::Checkpoint> checkpoint;  // none: the run starts from step 0
  bool in_memory = false;
  int64_t disk_step = -1;  // the newest step on the disk; −1: there is none
  // On rank 0, of one on the disk: no other process removes it while this lives.
  storage::CheckpointLease lease{};
};

// A collective call. Throws kCheckpoint where all checkpoints are damaged.
NewestCheckpoint newest_checkpoint(storage::FileSystem& files, const std::filesystem::path& run_folder,
                                   const checkpoint::Writers& together, MemoryCheckpoints& memory,
                                   checkpoint::Providers state);

// Throws kCheckpoint for a run without checkpoints whose events say that it has saved some. Such a run does
// not start anew by itself, since a disk may not be mounted.
void refuse_lost_checkpoints(const std::filesystem::path& events, const std::filesystem::path& checkpoints);

// Whether an earlier process came to the end at this step, with all that follows the last step, and none has
// gone on since.
bool ended_at(const std::filesystem::path& events, int64_t step);

}  // namespace longhaul::train
