// The cache folder of a program that a test starts. Each program has its own, except for the profile of the
// machine, which the programs of all tests share: with an empty cache each would measure it again, which
// takes all cores for seconds.
#pragma once

#include <filesystem>
#include <string>

#include "support/places.h"

namespace longhaul {

inline std::filesystem::path with_known_machine(const std::filesystem::path& cache) {
  const std::filesystem::path shared =
      std::filesystem::path(program_file()).parent_path() / "machine-profile";
  std::filesystem::create_directories(shared);
  std::filesystem::create_directories(cache);
  if (!std::filesystem::is_symlink(cache / "machine-profile"))
    std::filesystem::create_directory_symlink(shared, cache / "machine-profile");
  return cache;
}

// The variable for the program's environment.
inline std::string cache_variable(const std::filesystem::path& cache) {
  return "LONGHAUL_CACHE=" + with_known_machine(cache).string();
}

}  // namespace longhaul
