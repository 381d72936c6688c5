// Reads files of /proc and /sys. They report no size, so they are read until they end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace longhaul {

// Empty: the file does not exist or cannot be read.
std::string kernel_text(const std::filesystem::path& path, size_t most_bytes = size_t{1} << 20);
std::string kernel_line(const std::filesystem::path& path);  // the first line, without the line end

// The number with which the first line begins; 0: there is none.
double kernel_number(const std::filesystem::path& path);

// Reads lines "name: value", as in /proc/meminfo, /proc/cpuinfo and /proc/PID/status. If a name occurs
// several times, the first counts.
std::map<std::string, std::string> kernel_fields(const std::filesystem::path& path);
// The bytes of a field like "16384 kB"; 0: there is no field of that name.
int64_t bytes_named(const std::map<std::string, std::string>& fields, const std::string& name);

}  // namespace longhaul
