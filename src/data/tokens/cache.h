// The cache of prepared data: what lies in it, when it was last used, and how to be rid of it. Whatever takes something from the cache
// says so with mark_used(), so its age is the time since a run last took it, not since it was made. Everything in it can be made again.
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

// Of the folder, and of the packing indexes in its folder "packing"; by name. Other things that lie there are not looked at. A folder
// that is not there holds nothing.
std::vector<CacheEntry> list_cache(const std::filesystem::path& folder);

// Makes the folder and holds it while it is prepared. Of runs that begin at once and want the same data one prepares it; the others wait here, and find it made.
// A request to stop ends the waiting.
std::unique_ptr<FileLock> lock_preparation(const std::filesystem::path& folder);

// False: a process is preparing it. A run that has it open goes on undisturbed.
bool remove_from_cache(const CacheEntry& entry);

void mark_used(const std::filesystem::path& file);  // no error where it may not be written

}  // namespace longhaul::data
