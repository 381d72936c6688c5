// Where things of the user lie. $LONGHAUL_CACHE, else $XDG_CACHE_HOME/longhaul, else ~/.cache/longhaul: LibTorch, token shards,
// trained tokenizers, the measured machine profile. Nothing in it is needed twice: it may be removed at any time.
#pragma once

#include <filesystem>

namespace longhaul {

std::filesystem::path user_cache_folder();  // not made; without any of the three variables: longhaul-cache in the temporary folder

}  // namespace longhaul
