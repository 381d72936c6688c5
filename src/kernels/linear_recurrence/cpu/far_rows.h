// Prefetches rows that will be read soon and are far apart in memory (those of one head), which the
// processor does not predict. They are fetched into the second-level cache a few at a time between the
// products of the previous block, because requests beyond the processor's queue of misses are dropped. For
// one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace longhaul::kernels {

class FarRows {
 public:
  // Begins the list of another block.
  void clear() {
    list_.clear();
    at_ = 0;
    calls_before_ = calls_;
    rows_ = calls_ = 0;
  }
  void add(const void* first, int64_t stride_bytes, int64_t rows, int64_t row_bytes) {
    list_.push_back({static_cast<const char*>(first), stride_bytes, rows, row_bytes});
    rows_ += rows;
  }
  // An even share of the rows, if it is called as often as for the block before.
  void fetch_some() {
    ++calls_;
    for (int64_t left = rows_ / std::max<int64_t>(1, calls_before_) + 1; left > 0 && at_ < list_.size();
         --left) {
      Rows& rows = list_[at_];
      for (int64_t byte = 0; byte < rows.bytes; byte += 64) __builtin_prefetch(rows.next + byte, 0, 2);
      rows.next += rows.stride;
      if (--rows.left == 0) ++at_;
    }
  }

 private:
  struct Rows {
    const char* next;
    int64_t stride, left, bytes;
  };
  std::vector<Rows> list_;
  size_t at_ = 0;
  int64_t rows_ = 0, calls_ = 0, calls_before_ = 0;
};

}  // namespace longhaul::kernels
