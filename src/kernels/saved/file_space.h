// FileSpace: places in a file without a name (base/files/unnamed_file.h), for bytes between their forward and
// their backward pass. Places are used again for data of the same size, so that the file grows only to the
// most that is stored at one time. For one thread; what is in a place is its user's affair.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <unordered_map>
#include <vector>

#include "base/files/unnamed_file.h"

namespace longhaul::kernels {

class FileSpace {
 public:
  explicit FileSpace(const std::filesystem::path& folder) : file_(unnamed_file(folder)) {}

  int64_t take(int64_t bytes) {
    ++lying_;
    if (std::vector<int64_t>& places = free_[bytes]; !places.empty()) {
      const int64_t place = places.back();
      places.pop_back();
      return place;
    }
    end_ += bytes;
    longest_ = std::max(longest_, end_);
    return end_ - bytes;
  }
  void give_back(int64_t place, int64_t bytes) {
    free_[bytes].push_back(place);
    if (--lying_ > 0) return;
    end_ = 0;
    free_.clear();
  }
  File& file() { return file_; }
  int64_t longest() const { return longest_; }  // the file's length, at its longest

 private:
  File file_;
  int64_t end_ = 0, lying_ = 0, longest_ = 0;               // end of the last bytes; storages that lie there
  std::unordered_map<int64_t, std::vector<int64_t>> free_;  // places by their size
};

}  // namespace longhaul::kernels
