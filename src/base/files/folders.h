// The folder for cached files of the user: $LONGHAUL_CACHE, else $XDG_CACHE_HOME/longhaul, else
// ~/.cache/longhaul. It holds LibTorch, token shards, trained tokenizers and the measured machine profile.
// All of it can be made again: the folder may be removed at any time.
#pragma once

#include <filesystem>

namespace longhaul {

// Does not create the folder. Without any of the three variables: longhaul-cache in the temporary folder.
std::filesystem::path user_cache_folder();

}  // namespace longhaul
