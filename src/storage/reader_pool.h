// ReaderPool: readers of many files, only a few of which are open at a time. A checkpoint of a thousand ranks
// has two thousand files, but a process may have only a thousand descriptors. The most recently used files
// stay open; any other is reopened by its path when it is read again, so a file that was replaced meanwhile
// is noticed at most by its size, as everywhere else.
//
// The file system must outlive the readers. Thread-safe.
#pragma once

#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "storage/file_system.h"

namespace longhaul::storage {

class ReaderPool : public std::enable_shared_from_this<ReaderPool> {
 public:
  static constexpr size_t kMostOpen = 64;

  static std::shared_ptr<ReaderPool> make(const FileSystem& files, size_t most_open = kMostOpen);
  // Opens the file at once, so that an error is thrown here. The reader keeps the pool alive.
  std::unique_ptr<FileReader> open(const std::filesystem::path& path, ExitCode missing);

 private:
  class Reader;
  struct Open {
    std::filesystem::path path;
    std::shared_ptr<const FileReader> reader;
  };
  ReaderPool(const FileSystem& files, size_t most_open) : files_(files), most_open_(most_open) {}
  std::shared_ptr<const FileReader> reader_of(const std::filesystem::path& path, ExitCode missing);

  const FileSystem& files_;
  size_t most_open_;
  std::mutex mutex_;
  std::list<Open> open_;  // most recently used first
  std::unordered_map<std::string, std::list<Open>::iterator> by_path_;
};

}  // namespace longhaul::storage
