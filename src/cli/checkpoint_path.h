// Checkpoints as people name them on the command line, and their difference as JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "storage/diff.h"

namespace longhaul::cli {

std::filesystem::path checkpoints_folder(const std::filesystem::path& path);  // PATH/checkpoints of a run folder, else PATH itself
bool holds_checkpoints(const std::filesystem::path& folder);                  // a folder of checkpoints, not one checkpoint
nlohmann::ordered_json json_of(const storage::CheckpointDifference& difference);

}  // namespace longhaul::cli
