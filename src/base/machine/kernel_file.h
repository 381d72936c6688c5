// Files of /proc and /sys, which tell no size: read until they end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace longhaul {

std::string kernel_text(const std::filesystem::path& path,
                        size_t most_bytes = size_t{1} << 20);  // empty: it is not there or cannot be read
std::string kernel_line(const std::filesystem::path& path);    // its first line, without the end

double kernel_number(const std::filesystem::path& path);  // that its first line begins with; 0: there is none

// Of lines "name: value", as /proc/meminfo, /proc/cpuinfo and /proc/PID/status have them; of several of one name the first.
std::map<std::string, std::string> kernel_fields(const std::filesystem::path& path);
// Of a field "16384 kB" the bytes; 0: there is none of that name.
int64_t bytes_named(const std::map<std::string, std::string>& fields, const std::string& name);

}  // namespace longhaul
