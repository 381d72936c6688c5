#include "base/files/folders.h"

#include <cstdlib>

namespace longhaul {
namespace {

std::filesystem::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path user_cache_folder() {
  if (const auto cache = from_environment("LONGHAUL_CACHE"); !cache.empty()) return cache;
  if (const auto caches = from_environment("XDG_CACHE_HOME"); !caches.empty()) return caches / "longhaul";
  if (const auto home = from_environment("HOME"); !home.empty()) return home / ".cache" / "longhaul";
  return std::filesystem::temp_directory_path() / "longhaul-cache";
}

}  // namespace longhaul
