// LineTail: the lines that other processes append to a file, as they come. It returns complete lines only. A
// file that was replaced, or cut below what was read, is read again from the beginning, and began_anew()
// reports it. A file that does not exist has no lines. No descriptor is held between polls, so that a
// thousand objects may exist. Links below the folder are not followed (base/files/file_beneath.h). For one
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace longhaul::observe {

class LineTail {
 public:
  // most_bytes: if the file is longer at the first poll, only its first line and the last most_bytes are
  // read. 0: all.
  LineTail(std::filesystem::path folder, std::filesystem::path name, int64_t most_bytes = 0)
      : folder_(std::move(folder)), name_(std::move(name)), path_(folder_ / name_), most_bytes_(most_bytes) {}

  // Calls `take` with each new line and returns whether there was one. A file that cannot be read now is
  // tried again in the next poll.
  bool poll(const std::function<void(std::string_view)>& take);
  bool began_anew() const { return began_anew_; }  // in the last poll: earlier lines are void
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_, name_, path_;
  int64_t most_bytes_, offset_ = 0, seen_bytes_ = -1;
  std::string begin_;  // the file's first bytes, by which it is recognised
  bool began_anew_ = false;
};

}  // namespace longhaul::observe
