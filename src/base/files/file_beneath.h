// Files of folders that others may write to, who could lead a reader with more rights than theirs to files of his: neither the file nor a folder on the
// way to it may be a link, whatever is put in place meanwhile. The root itself may be one: it is what somebody typed. Errors as those of base/files/file.h.
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
  // A file that is not there, is a link or no regular file: `missing`.
  FileBeneath(const std::filesystem::path& root, const std::filesystem::path& below, ExitCode missing = ExitCode::kData);
  ~FileBeneath();
  FileBeneath(const FileBeneath&) = delete;
  FileBeneath& operator=(const FileBeneath&) = delete;
  int64_t size() const;
  size_t read_some(int64_t offset, std::span<std::byte> into) const;  // 0 at the end

 private:
  std::filesystem::path path_;  // for messages
  int descriptor_ = -1;
};

std::string read_text_beneath(const std::filesystem::path& root, const std::filesystem::path& below, ExitCode missing = ExitCode::kData,
                              int64_t limit_bytes = 1 << 30);
// Names of the regular files in a folder, sorted; links and what they lead to are left out. None where there is no such folder.
std::vector<std::string> names_beneath(const std::filesystem::path& root, const std::filesystem::path& below);

}  // namespace longhaul
