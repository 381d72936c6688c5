// Where token shards and trained tokenizers of a recipe lie: data.cache, else the user's cache folder.
#pragma once

#include <filesystem>

#include "recipe/data_options.h"

namespace longhaul::cli {

std::filesystem::path data_cache(const recipe::DataOptions& options);

}  // namespace longhaul::cli
