#include "base/files/small_disk.h"

#include <fmt/format.h>
#include <sys/mount.h>

#include <fstream>
#include <string>

#include "base/process/own_mounts.h"

namespace longhaul {
namespace {

constexpr const char* kFiller = "filler";
constexpr size_t kBlock = 4096;

}  // namespace

SmallDisk::SmallDisk(std::filesystem::path folder, int64_t bytes) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  usable_ = sees_mounts_of_its_own() &&
            ::mount("longhaul", folder_.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) == 0;
}

// Unmounts lazily: a process that still has a file open keeps it until then.
SmallDisk::~SmallDisk() {
  if (usable_) ::umount2(folder_.c_str(), MNT_DETACH);
}

void SmallDisk::fill() const {
  if (!usable_) return;
  std::ofstream filler(folder_ / kFiller, std::ios::binary);
  const std::string block(kBlock, 'x');
  while (filler.write(block.data(), kBlock).flush()) {
  }
}

void SmallDisk::empty() const {
  std::error_code ignored;
  std::filesystem::remove(folder_ / kFiller, ignored);
}

}  // namespace longhaul
