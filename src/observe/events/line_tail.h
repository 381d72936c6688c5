// LineTail: the lines that others append to a file, as they come. Whole lines only; one that is still being written waits. A file that was replaced, or cut
// below what was read, is read from its begin again, which began_anew() tells. A file that is not there has no lines. Holds no descriptor between polls, so that
// a thousand of them may be kept. Links below the folder are not followed (base/files/file_beneath.h). One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace longhaul::observe {

class LineTail {
 public:
  // most_bytes: of a file longer than that when it is first met, only the first line and the last so many bytes are read. 0: all.
  LineTail(std::filesystem::path folder, std::filesystem::path name, int64_t most_bytes = 0)
      : folder_(std::move(folder)), name_(std::move(name)), path_(folder_ / name_), most_bytes_(most_bytes) {}

  // Calls `take` with each new line and says whether there was one. A file that cannot be read now is tried again the next time.
  bool poll(const std::function<void(std::string_view)>& take);
  bool began_anew() const { return began_anew_; }  // in the last poll: what was taken before is void
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_, name_, path_;
  int64_t most_bytes_, offset_ = 0, seen_bytes_ = -1;
  std::string begin_;  // of the file, by which it is known again
  bool began_anew_ = false;
};

}  // namespace longhaul::observe
