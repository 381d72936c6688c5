// FileSystem: the few file operations that checkpoints need, behind one interface, so that the commit
// protocol can run on a disk, on a recording memory disk (crash replay) and on a failing one
// (fault_file_system.h).
//
// Rules that every implementation keeps:
// - written data is durable only after FileWriter::sync(); a created, renamed or removed name only after
//   sync_folder() of the folder that holds it; rename replaces its target atomically;
// - make_new_folder gives a name to one caller only, also between machines that share the disk (mkdir is
//   atomic on NFS too);
// - failures throw Error with exit code 73 (disk); a missing file in open() gives the exit code that the
//   caller names;
// - open() refuses symbolic links unless told otherwise, and everything that is not a regular file.
// Several threads may use one FileReader at once (pread); a FileWriter is for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace longhaul::storage {

class FileReader {
 public:
  virtual ~FileReader() = default;
  virtual int64_t size() const = 0;  // measured at each call: a file may shrink after opening
  // Fewer bytes: Error, exit code 73.
  virtual void read_exactly(int64_t offset, std::span<std::byte> into) const = 0;
};

class FileWriter {
 public:
  virtual ~FileWriter() = default;                          // closes; what was not synced may be lost
  virtual void write(std::span<const std::byte> data) = 0;  // appends
  // After a failed sync the file counts as lost: write another one, and never sync again.
  virtual void sync() = 0;
  virtual void close() = 0;  // reports errors that the destructor cannot report
};

enum class Links { kRefuse, kFollow };

struct FolderEntry {
  std::string name;
  bool is_folder = false;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<FileWriter> create(const std::filesystem::path& path) = 0;  // truncates
  virtual std::unique_ptr<FileReader> open(const std::filesystem::path& path, ExitCode missing,
                                           Links links = Links::kRefuse) const = 0;
  virtual void make_folders(const std::filesystem::path& folder) = 0;     // like mkdir -p
  virtual bool make_new_folder(const std::filesystem::path& folder) = 0;  // false: the name is taken
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // A file or an empty folder; a missing one is no error.
  virtual void remove(const std::filesystem::path& path) = 0;
  virtual void sync_folder(const std::filesystem::path& folder) = 0;
  // sorted; missing folder: empty.
  virtual std::vector<FolderEntry> list(const std::filesystem::path& folder) const = 0;
  virtual bool exists(const std::filesystem::path& path) const = 0;
  virtual bool is_folder(const std::filesystem::path& path) const = 0;     // or a link to one
  virtual double modified_s(const std::filesystem::path& path) const = 0;  // Unix time of the last change
  // Of the nearest existing parent folder.
  virtual int64_t free_bytes(const std::filesystem::path& folder) const = 0;
};

// LocalFileSystem: the machine's own disk.
class LocalFileSystem final : public FileSystem {
 public:
  std::unique_ptr<FileWriter> create(const std::filesystem::path& path) override;
  std::unique_ptr<FileReader> open(const std::filesystem::path& path, ExitCode missing,
                                   Links links) const override;
  void make_folders(const std::filesystem::path& folder) override;
  bool make_new_folder(const std::filesystem::path& folder) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove(const std::filesystem::path& path) override;
  void sync_folder(const std::filesystem::path& folder) override;
  std::vector<FolderEntry> list(const std::filesystem::path& folder) const override;
  bool exists(const std::filesystem::path& path) const override;
  bool is_folder(const std::filesystem::path& path) const override;
  double modified_s(const std::filesystem::path& path) const override;
  int64_t free_bytes(const std::filesystem::path& folder) const override;
};

LocalFileSystem& local_file_system();  // stateless, shared

// Helper functions for any FileSystem.
std::string read_small_file(const FileSystem& files, const std::filesystem::path& path, ExitCode missing,
                            int64_t limit_bytes);
// The content is durable, the name is not yet.
void write_synced(FileSystem& files, const std::filesystem::path& path, std::string_view text);
// Like mkdir -p, and durable on return.
void make_folders_durably(FileSystem& files, const std::filesystem::path& folder);
// The copy is synced, but its name is not durable yet; `moved` is called after every piece.
void copy_file(FileSystem& files, const std::filesystem::path& from, const std::filesystem::path& to,
               const std::function<void(int64_t bytes)>& moved = {});
void remove_tree(FileSystem& files, const std::filesystem::path& folder);  // a missing folder is no error

}  // namespace longhaul::storage
