// ReaderPool: readers of many files, of which few are open at a time. A checkpoint of a thousand ranks has two thousand files, and a
// process may have a thousand descriptors: whoever reads it all must not need one for each. The files used last stay open; another one
// that is read again is opened again by its path, so a file that was replaced meanwhile is noticed by its size at most, as everywhere.
//
// The file system must outlive the readers. Any thread.
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
  // Opens it, so that what is wrong with it is said here. The reader keeps the pool alive.
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
  std::list<Open> open_;  // the one used last first
  std::unordered_map<std::string, std::list<Open>::iterator> by_path_;
};

}  // namespace longhaul::storage
