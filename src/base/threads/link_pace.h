// LinkPace lets copies in memory take as long as over a link of a stated rate, so that a machine without that
// link shows what would hide behind compute. For one thread.
#pragma once

#include <cstdint>

namespace longhaul {

class LinkPace {
 public:
  explicit LinkPace(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}  // 0: no limit
  // `bytes` were copied from begin_ns on (monotonic_ns()). Returns when the link would have carried them, and
  // everything before them.
  void carried(int64_t begin_ns, int64_t bytes);

 private:
  double bytes_per_second_;
  int64_t free_ns_ = 0;  // when the link has carried all so far
};

}  // namespace longhaul
