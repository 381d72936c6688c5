// Whether process numbers of the kernel's log are those that this process sees: not in a container that counts its own.
#pragma once

#include <filesystem>

namespace longhaul::control {

inline bool in_first_process_space(const std::filesystem::path& root) {
  constexpr const char* kFirst = "pid:[4026531836]";  // a number of the kernel's for the space of the machine's first process
  std::error_code none;
  return std::filesystem::read_symlink(root / "proc/self/ns/pid", none).string() == kFirst;
}

}  // namespace longhaul::control
