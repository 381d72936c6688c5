// Files of /proc and /sys, which tell no size: read until they end.
#pragma once

#include <filesystem>
#include <string>

namespace longhaul {

std::string kernel_text(const std::filesystem::path& path,
                        size_t most_bytes = size_t{1} << 20);  // empty: it is not there or cannot be read
std::string kernel_line(const std::filesystem::path& path);    // its first line, without the end

}  // namespace longhaul
