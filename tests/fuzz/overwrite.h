// Writes what is fuzzed into a file, for readers that take a path. Nothing waits for the disk.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace longhaul::fuzz {

inline void overwrite(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace longhaul::fuzz
