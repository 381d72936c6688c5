// NewFolder: a folder that appears complete or not at all. Files are created in path(), a temporary folder
// in the same parent as the final name; commit() renames it to the final name in one step. Without a commit
// the temporary folder is removed. The final name must not exist yet (kUsage). Not thread-safe.
#pragma once

#include <filesystem>

#include "storage/file_system.h"

namespace longhaul::checkpoint {

class NewFolder {
 public:
  NewFolder(storage::FileSystem& files, const std::filesystem::path& name, const char* option);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  storage::FileSystem& files_;
  std::filesystem::path name_, temporary_;
  bool committed_ = false;
};

// The files that accompany a public model's weights wherever the weights go: tokenizer, chat template,
// generation settings, config.json. carry_files copies those that `from` has. Their names are a fixed list,
// so no other file is read.
inline constexpr const char* kPublishedBeside = "published";  // in a run folder
std::vector<std::string> carry_files(storage::FileSystem& files, const std::filesystem::path& from,
                                     const std::filesystem::path& to);

}  // namespace longhaul::checkpoint
