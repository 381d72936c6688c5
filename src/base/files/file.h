// Files. All of the operating system's calls for files are in this folder. Errors carry the path and errno's
// text: disk full, I/O and permission errors are kDisk (73); the caller chooses the code for a missing or
// short file. Reading uses pread, so several threads may read from one File at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace longhaul {

class File {
 public:
  enum class Mode { kRead, kCreate /*truncates*/, kAppend, kReadWrite };
  File() = default;
  // Refuses what is not a regular file (FIFO, device, folder). `missing` is the exit code where a file to be
  // read does not exist, is no regular file or is too short. kAppend and kReadWrite create a file that does
  // not exist.
  static File open(const std::filesystem::path& path, Mode mode, ExitCode missing = ExitCode::kData);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  int64_t size() const;
  void read_exactly(int64_t offset, std::span<std::byte> into) const;  // fewer bytes: error naming both sizes
  size_t read_some(int64_t offset, std::span<std::byte> into) const;   // 0 at the end
  void write(std::span<const std::byte> data);                         // at the current position
  void write(std::string_view text);
  void write_at(int64_t offset, std::span<const std::byte> data);  // not in mode kAppend
  void truncate(int64_t size);
  void sync();                  // fsync
  void close();                 // reports errors, unlike the destructor
  bool is_at_its_path() const;  // False: the path was removed, or names another file by now.
  const std::filesystem::path& path() const { return path_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
  std::filesystem::path path_;
  ExitCode missing_ = ExitCode::kData;
  friend class MappedFile;
};

std::string read_text(const std::filesystem::path& path, ExitCode missing = ExitCode::kData,
                      int64_t limit_bytes = 1 << 30);
// Writes a temporary file, calls fsync, renames it, and calls fsync on the folder.
void write_text_atomically(const std::filesystem::path& path, std::string_view text);
void sync_folder(const std::filesystem::path& folder);
void make_folders(const std::filesystem::path& folder);  // like mkdir -p; kDisk on failure
// The rename is on disk when it returns.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
// Recursive; regular files and links to them, sorted bytewise; a missing folder is kData.
std::vector<std::filesystem::path> list_files(const std::filesystem::path& folder);
int64_t free_disk_bytes(const std::filesystem::path& folder);  // in the nearest parent folder that exists

// A read-only memory map whose size is checked again before each use of a range: a file that shrank after
// opening is an error, not a crash.
class MappedFile {
 public:
  MappedFile() = default;
  static MappedFile open(const std::filesystem::path& path, ExitCode missing = ExitCode::kData);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> range(int64_t offset, int64_t length) const;
  int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  File file_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// FileLock holds path.lock; a second process gets an error that names the holder's pid. The lock is released
// when the process dies.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool is_at_its_path() const;  // False: another process could hold "the same" lock by now.
  // The process of this machine that holds the lock of this path, as the kernel lists it; none: nobody here
  // does, or the kernel does not say. Takes no lock.
  static std::optional<int64_t> holder_of(const std::filesystem::path& path);

 private:
  std::filesystem::path lock_;
  int descriptor_ = -1;
};

}  // namespace longhaul
