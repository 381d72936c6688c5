// FaultFileSystem: another file system that fails on request. It counts every operation that changes the
// disk; the n-th one fails with "no space", "input/output error" or after half of its bytes. A full disk
// stays full: creating, writing and syncing fail until clear(), while renaming and removing still work, as on
// a real disk. Not thread-safe.
#pragma once

#include <memory>

#include "support/storage/wrapped_file_system.h"

namespace longhaul::storage {

class FaultFileSystem final : public WrappedFileSystem {
 public:
  enum class Fault { kNone, kNoSpace, kIo, kShortWrite };

  using WrappedFileSystem::WrappedFileSystem;
  // The operation with this number (0 is the first from now on) fails. kIo fails once; the other two leave
  // the disk full.
  void fail_at(int64_t operation, Fault fault);
  // The n-th write from now on silently stores a flipped bit.
  void flip_bit_of_write(int64_t write, int64_t byte, int bit);
  void clear();
  int64_t operations() const { return operations_; }  // since the last fail_at, flip_bit_of_write or clear

  std::unique_ptr<FileWriter> create(const std::filesystem::path& path) override;
  void make_folders(const std::filesystem::path& folder) override;
  bool make_new_folder(const std::filesystem::path& folder) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove(const std::filesystem::path& path) override;
  void sync_folder(const std::filesystem::path& folder) override;

 private:
  class Writer;
  enum class Needs { kSpace, kNothing };
  // Counts the operation, and throws if it is the one that must fail.
  void step(Needs needs, const std::filesystem::path& path);
  bool next_write_is_short() const { return fault_ == Fault::kShortWrite && operations_ == fail_at_; }

  Fault fault_ = Fault::kNone;
  int64_t operations_ = 0, fail_at_ = -1;
  int64_t writes_ = 0, flip_write_ = -1, flip_byte_ = 0;
  int flip_bit_ = 0;
  bool full_ = false;
};

}  // namespace longhaul::storage
