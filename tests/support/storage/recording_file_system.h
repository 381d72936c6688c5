// RecordingFileSystem: a disk in memory that records every operation, and reconstructs each state that a
// crash could have left.
//
// The model is the strict one of POSIX: a write is durable after a sync of its file; a created, renamed or
// removed name is durable after a sync of its folder; everything else may be on the disk or not, in any
// combination, and a write may be torn. A rename moves a name atomically. Each test of the commit protocol
// walks all prefixes of the log and all such states. Not thread-safe.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "storage/file_system.h"

namespace longhaul::storage {

struct DiskOperation {
  enum class Kind { kLink, kMove, kUnlink, kTruncate, kWrite, kSyncFile, kSyncFolder };
  Kind kind = Kind::kWrite;
  int node = 0;       // the file or folder that is changed
  int folder = 0;     // folder that holds the name (kLink, kMove, kUnlink)
  int to_folder = 0;  // kMove
  std::string name, to_name;
  bool is_folder = false;  // kLink
  int64_t offset = 0;      // kWrite
  std::vector<std::byte> data;
};

// Survival: the remainder of an operation that was not yet durable at the crash.
struct Survival {
  enum class Kind { kLost, kWhole, kTorn /*first `bytes` bytes*/, kZeros /*right length, no content*/ };
  Kind kind = Kind::kLost;
  int64_t bytes = 0;
};

class RecordingFileSystem final : public FileSystem {
 public:
  RecordingFileSystem();
  ~RecordingFileSystem() override;

  std::unique_ptr<FileWriter> create(const std::filesystem::path& path) override;
  std::unique_ptr<FileReader> open(const std::filesystem::path& path, ExitCode missing,
                                   Links links = Links::kRefuse) const override;
  void make_folders(const std::filesystem::path& folder) override;
  bool make_new_folder(const std::filesystem::path& folder) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove(const std::filesystem::path& path) override;
  void sync_folder(const std::filesystem::path& folder) override;
  std::vector<FolderEntry> list(const std::filesystem::path& folder) const override;
  bool exists(const std::filesystem::path& path) const override;
  bool is_folder(const std::filesystem::path& path) const override;
  double modified_s(const std::filesystem::path& path) const override;
  int64_t free_bytes(const std::filesystem::path&) const override { return free_bytes_; }

  void set_time_s(double now_s) { now_s_ = now_s; }  // the time that modified_s reports for later changes
  // The value that free_bytes reports; it has no other effect.
  void set_free_bytes(int64_t bytes) { free_bytes_ = bytes; }
  // Not recorded, because it is decay and not an operation.
  void flip_bit(const std::filesystem::path& path, int64_t byte, int bit);
  int64_t file_bytes(const std::filesystem::path& path) const;
  std::unique_ptr<RecordingFileSystem> clone() const;  // the current disk, with an empty log

  const std::vector<DiskOperation>& log() const { return log_; }
  // Operations among the first `prefix` that change the disk and were not durable after the prefix.
  std::vector<size_t> pending(size_t prefix) const;
  // The disk after a crash that follows the first `prefix` operations; `survival` is called for each pending
  // one.
  std::unique_ptr<RecordingFileSystem> after_crash(size_t prefix,
                                                   const std::function<Survival(size_t)>& survival) const;

 private:
  struct Node;
  class Writer;
  class Reader;
  int find(const std::filesystem::path& path) const;  // node, or -1
  int folder_of(const std::filesystem::path& path) const;
  int add_node(int folder, const std::string& name, bool is_folder);
  void record(DiskOperation operation);
  void apply(const DiskOperation& operation);

  // Shared with open files: unlinked nodes stay, as on a real disk.
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<DiskOperation> log_;
  double now_s_ = 0;
  int64_t free_bytes_ = std::numeric_limits<int64_t>::max();
};

}  // namespace longhaul::storage
