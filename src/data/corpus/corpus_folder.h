// The files of a folder of a corpus, texts and token files alike. Links are followed, to files and to folders: corpora are often put
// together of them. Hidden files and folders (".git") are left out with all that lies in them. A link that leads back to a folder in
// which it lies is passed over, for what it leads to is listed already; one that leads nowhere is counted, for it may be text that is
// missing (a disk that is not mounted).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace longhaul::data {

struct DeadLinks {
  int64_t count = 0;
  std::filesystem::path first;  // by its path
};

// Calls `file` with the path of every regular file below `root`, in no order, until it returns false. kData: a folder that cannot be listed.
DeadLinks walk_corpus_folder(const std::filesystem::path& root, const std::function<bool(const std::filesystem::path&)>& file);

}  // namespace longhaul::data
