// SharedFile: a file of fixed size that one process writes and others read at the same time, all through
// memory maps. The file outlives the processes. It is made for /dev/shm, where a write costs no system call.
// The user of the class arranges the contents: trivial types, and atomics for what is read while it is
// written.
//
//   // zeroed; older maps of a file of that name stay valid
//   SharedFile mine = SharedFile::create(path, 65'536);
//   // read-only; empty if there is no such file
//   std::optional<SharedFile> theirs = SharedFile::open(path, 65'536);
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace longhaul {

class SharedFile {
 public:
  // create() reserves the memory, so that a lack of it is an error here (kDisk) and not a signal later. Only
  // this user may read the file. It gets its name in publish(), so that readers never see a half-filled file.
  static SharedFile create(const std::filesystem::path& path, size_t bytes);
  void publish();
  static std::optional<SharedFile> open(const std::filesystem::path& path, size_t bytes);

  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) noexcept;
  ~SharedFile();  // unmaps; the file stays

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  SharedFile(std::filesystem::path path, std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace longhaul
