// The difference of two checkpoints as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "storage/diff.h"

namespace longhaul::cli {

nlohmann::ordered_json json_of(const storage::CheckpointDifference& difference);

}  // namespace longhaul::cli
