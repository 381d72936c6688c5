// Whether the process numbers in the kernel's log are those that this process sees. They are not in a
// container that has a process namespace of its own.
#pragma once

#include <filesystem>

namespace longhaul::control {

inline bool in_first_process_space(const std::filesystem::path& root) {
  // The kernel's fixed number of the initial process namespace.
  constexpr const char* kFirst = "pid:[4026531836]";
  std::error_code none;
  return std::filesystem::read_symlink(root / "proc/self/ns/pid", none).string() == kFirst;
}

}  // namespace longhaul::control
