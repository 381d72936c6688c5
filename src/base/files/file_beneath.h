// Reads files in folders to which other users may write. Such a user could place a link there to make a
// process with more rights read another file. Therefore neither the file nor any folder between the root and
// it may be a link, even if one is put in place meanwhile. The root itself may be a link, because the user
// typed it. Errors are those of base/files/file.h.
//
//   const FileBeneath file(run_folder, "logs/rank-3.log");
//   const std::string text = read_text_beneath(run_folder, "report.html");
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace longhaul {

class FileBeneath {  // open for reading
 public:
  // `missing` is the error code if the file does not exist, is a link or is no regular file.
  FileBeneath(const std::filesystem::path& root, const std::filesystem::path& below,
              ExitCode missing = ExitCode::kData);
  ~FileBeneath();
  FileBeneath(const FileBeneath&) = delete;
  FileBeneath& operator=(const FileBeneath&) = delete;
  int64_t size() const;
  size_t read_some(int64_t offset, std::span<std::byte> into) const;  // 0 at the end

 private:
  std::filesystem::path path_;  // for messages
  int descriptor_ = -1;
};

std::string read_text_beneath(const std::filesystem::path& root, const std::filesystem::path& below,
                              ExitCode missing = ExitCode::kData, int64_t limit_bytes = 1 << 30);
// The names of the regular files in a folder, sorted; links are left out. Empty where there is no such
// folder.
std::vector<std::string> names_beneath(const std::filesystem::path& root, const std::filesystem::path& below);

}  // namespace longhaul
