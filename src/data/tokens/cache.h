// The cache of prepared data: its entries, when each was last used, and how to remove them. Code that uses an
// entry calls mark_used(), so that its age is the time since the last use, not since it was made. Everything
// in the cache can be made again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace longhaul::data {

struct CacheEntry {
  enum class Kind { kTokens, kTokenizer, kPackingIndex, kCompression } kind = Kind::kTokens;
  std::filesystem::path path;  // a folder for kTokens
  int64_t bytes = 0;           // of all files in it
  double used_s = 0;           // Unix time
};
std::string name_of(CacheEntry::Kind kind);  // "token shards"

// Lists the folder, and the packing indexes in its folder "packing", by name. Other files there are ignored.
// A missing folder has no entries.
std::vector<CacheEntry> list_cache(const std::filesystem::path& folder);

// Makes the folder and locks it while it is prepared. If several runs start at once with the same data, one
// prepares it; the others wait here and find it prepared. A request to stop ends the wait.
std::unique_ptr<FileLock> lock_preparation(const std::filesystem::path& folder);

// False: a process is preparing it. A run that has it open is not disturbed.
bool remove_from_cache(const CacheEntry& entry);

void mark_used(const std::filesystem::path& file);  // no error where the file may not be written

}  // namespace longhaul::data
