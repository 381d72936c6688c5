#include "base/machine/disk_rate.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/statistics.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

struct RemovedAtTheEnd {
  fs::path path;
  ~RemovedAtTheEnd() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

// Asks the kernel to forget the file's pages, so that reading reaches the disk.
void drop_from_page_cache(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
}

double median_fsync_ms(const fs::path& path, std::span<const std::byte> block) {
  File file = File::open(path, File::Mode::kCreate);
  std::array<double, 7> times{};
  for (double& time : times) {
    const Stopwatch watch;
    file.write(block.first(4096));
    file.sync();
    time = watch.milliseconds();
  }
  return median({times.begin(), times.end()});
}

}  // namespace

DiskRate measured_disk_rate(const fs::path& folder, int64_t bytes) {
  make_folders(folder);
  const RemovedAtTheEnd guard{folder / fmt::format(".disk-rate-{}", ::getpid())};
  std::vector<std::byte> block(1 << 20);
  // not all zeros
  for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>((i * 2654435761u) >> 13);

  DiskRate rate;
  const int64_t blocks = std::max<int64_t>(1, bytes / static_cast<int64_t>(block.size()));
  uint32_t written = 0, came_back = 0;
  const double total = static_cast<double>(blocks) * static_cast<double>(block.size());
  for (int64_t i = 0; i < blocks; ++i) written = crc32c(block, written);  // not within the timed part
  {
    const Stopwatch watch;
    File file = File::open(guard.path, File::Mode::kCreate);
    for (int64_t i = 0; i < blocks; ++i) file.write(block);
    file.sync();
    file.close();
    rate.write_bytes_per_second = total / watch.seconds();
  }
  drop_from_page_cache(guard.path);
  {
    const Stopwatch watch;
    const File file = File::open(guard.path, File::Mode::kRead);
    for (int64_t i = 0; i < blocks; ++i) {
      file.read_exactly(i * static_cast<int64_t>(block.size()), block);
      came_back = crc32c(block, came_back);  // several times faster than a disk
    }
    rate.read_bytes_per_second = total / watch.seconds();
  }
  rate.intact = came_back == written;
  rate.fsync_ms = median_fsync_ms(guard.path, block);
  return rate;
}

}  // namespace longhaul
