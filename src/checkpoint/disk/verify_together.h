// Every byte of a checkpoint read and compared with its checksums, by all ranks of a run at once, each some of its files: one of 840 GB
// takes one process twenty minutes. Nobody waits for a fixed time: how long follows from the bytes of the largest share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/disk/writers.h"
#include "storage/checkpoint_files.h"

namespace longhaul::checkpoint {

// Which of the files fall to each rank: about as many bytes to one as to another. The same on all ranks.
std::vector<std::vector<std::string>> shares_of_files(const storage::Manifest& manifest, std::string_view role, int64_t ranks);

// A collective call: what is wrong with the checkpoint of this name, the same on all ranks; empty: it is whole. With a role only of files
// with such tensors. kDisk on all: one has too many files open, which says nothing of the checkpoint.
std::string damage_of(const storage::FileSystem& files, const std::filesystem::path& checkpoints, const std::string& name,
                      const Writers& together, std::string_view role = storage::kAllRoles);

}  // namespace longhaul::checkpoint
