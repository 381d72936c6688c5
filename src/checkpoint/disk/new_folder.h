// NewFolder: a folder that appears whole or not at all. What is put into path() while it is made lies beside the final name and gets it in one
// rename; what is not committed is removed again. The name must be free (kUsage). One thread.
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

// What lies beside a public model's weights and goes with them wherever they go: tokenizer, chat template, generation settings, config.json.
// Copies what of it `from` has; its names are fixed, so nothing else is read.
inline constexpr const char* kPublishedBeside = "published";  // in a run folder
std::vector<std::string> carry_files(storage::FileSystem& files, const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace longhaul::checkpoint
