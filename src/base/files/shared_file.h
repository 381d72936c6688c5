// SharedFile: a file of fixed size, mapped by the process that writes it and by those that read while it does; it outlives them. Made for
// /dev/shm, where a write costs no system call. What lies in it is for the user to arrange: trivial types, and atomics where both look.
//
//   SharedFile mine = SharedFile::create(path, 65'536);                       // zeroed; whoever has an older file of that name mapped keeps it
//   std::optional<SharedFile> theirs = SharedFile::open(path, 65'536);        // read-only; empty while there is none of that size
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace longhaul {

class SharedFile {
 public:
  // Reserves the memory: none left is an error here (kDisk), not a signal later. Only this user may read it. The file has its name
  // after publish(), so readers never see one that is half filled in.
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
  SharedFile(std::filesystem::path path, std::byte* data, size_t size) : path_(std::move(path)), data_(data), size_(size) {}
  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace longhaul
