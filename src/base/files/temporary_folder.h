// TemporaryFolder: a new folder in the system's temporary folder, which the destructor removes with all its
// contents.
#pragma once

#include <cstdlib>
#include <filesystem>

#include <string>

#include "base/error.h"

namespace longhaul {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "longhaul-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw Error({.code = ExitCode::kDisk, .what = "cannot make a temporary folder", .where = name});
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace longhaul
