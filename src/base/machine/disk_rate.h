// Measures the speed of a folder's disk with a file that is removed again: writing with a final fsync,
// reading past the page cache (as far as the kernel drops it), and one small write with fsync, which is the
// cost of committing a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>

namespace longhaul {

struct DiskRate {
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
  double fsync_ms = 0;  // median of several
  bool intact = true;   // the bytes read are the bytes written
};

// Creates the folder; kDisk on failure.
DiskRate measured_disk_rate(const std::filesystem::path& folder, int64_t bytes = 64 << 20);

}  // namespace longhaul
