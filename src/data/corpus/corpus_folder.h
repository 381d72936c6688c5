// Lists the files of a corpus folder, for texts and token files alike. Links to files and folders are
// followed, because corpora are often assembled from them. Hidden files and folders (".git") are left out
// with their contents. A link to a folder that contains the link is skipped, because its target is listed
// already. A link that leads nowhere is counted, because its target may be missing text (a disk that is not
// mounted).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace longhaul::data {

struct DeadLinks {
  int64_t count = 0;
  std::filesystem::path first;  // the first in the order of paths
};

// Calls `file` with the path of every regular file below `root`, in no order, until it returns false. kData:
// a folder cannot be listed.
DeadLinks walk_corpus_folder(const std::filesystem::path& root,
                             const std::function<bool(const std::filesystem::path&)>& file);

}  // namespace longhaul::data
