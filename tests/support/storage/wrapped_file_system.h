// WrappedFileSystem passes everything to another file system. Classes that fail, count or wait on the way
// derive from it and override the operations that they change.
#pragma once

#include "storage/file_system.h"

namespace longhaul::storage {

class WrappedFileSystem : public FileSystem {
 public:
  explicit WrappedFileSystem(FileSystem& inner) : inner_(inner) {}

  std::unique_ptr<FileWriter> create(const std::filesystem::path& path) override {
    return inner_.create(path);
  }
  std::unique_ptr<FileReader> open(const std::filesystem::path& path, ExitCode missing,
                                   Links links = Links::kRefuse) const override {
    return inner_.open(path, missing, links);
  }
  void make_folders(const std::filesystem::path& folder) override { inner_.make_folders(folder); }
  bool make_new_folder(const std::filesystem::path& folder) override {
    return inner_.make_new_folder(folder);
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    inner_.rename(from, to);
  }
  void remove(const std::filesystem::path& path) override { inner_.remove(path); }
  void sync_folder(const std::filesystem::path& folder) override { inner_.sync_folder(folder); }
  std::vector<FolderEntry> list(const std::filesystem::path& folder) const override {
    return inner_.list(folder);
  }
  bool exists(const std::filesystem::path& path) const override { return inner_.exists(path); }
  bool is_folder(const std::filesystem::path& path) const override { return inner_.is_folder(path); }
  double modified_s(const std::filesystem::path& path) const override { return inner_.modified_s(path); }
  int64_t free_bytes(const std::filesystem::path& folder) const override { return inner_.free_bytes(folder); }

 protected:
  FileSystem& inner_;
};

}  // namespace longhaul::storage
