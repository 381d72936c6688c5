// Verifies a checkpoint with all ranks of a run at once: every byte is read and compared with the checksums
// of the manifest, and each rank reads some of the files. One process would need twenty minutes for a
// checkpoint of 840 GB. There is no fixed timeout: the time that a rank waits follows from the bytes of the
// largest share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/disk/writers.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {

// The files that each rank reads: about the same number of bytes for each. The result is the same on all
// ranks.
std::vector<std::vector<std::string>> shares_of_files(const storage::Manifest& manifest,
                                                      std::string_view role, int64_t ranks);

// A collective call. Returns what is wrong with the checkpoint of this name, the same text on all ranks;
// empty: the checkpoint is complete. With a role, only files that have tensors of that role are read.
// Throws kDisk on all ranks when one has too many files open, which says nothing about the checkpoint.
std::string damage_of(const storage::FileSystem& files, const std::filesystem::path& checkpoints,
                      const std::string& name, const Writers& together,
                      std::string_view role = storage::kAllRoles);

}  // namespace longhaul::checkpoint
