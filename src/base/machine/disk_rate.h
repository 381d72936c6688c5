// How fast a folder's disk is, measured with a file that is removed again: writing with the final fsync, reading past the page
// cache (as far as the kernel lets go of it), and one small write with fsync, which is what committing a checkpoint costs.
#pragma once

#include <cstdint>
#include <filesystem>

namespace longhaul {

struct DiskRate {
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
  double fsync_ms = 0;  // median of several
  bool intact = true;   // what was read is what was written
};

DiskRate measured_disk_rate(const std::filesystem::path& folder, int64_t bytes = 64 << 20);  // makes the folder; kDisk on failure

}  // namespace longhaul
