// Blocks of work that may run in any order on any thread. Neighbours in the list share operands, so each
// thread takes one contiguous part of it; the parts are cut by cost, not by count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/threads/parallel.h"

namespace longhaul::kernels {

// Multiply-adds of a product worth a thread of their own: a few microseconds.
inline constexpr int64_t kProductGrain = 1 << 18;

// Cuts `total` into the fewest parts of at most `longest`, all alike but the last and multiples of
// `multiple`.
inline int64_t even_part(int64_t total, int64_t longest, int64_t multiple) {
  const int64_t parts = std::max<int64_t>(1, (total + longest - 1) / longest);
  return ((total + parts - 1) / parts + multiple - 1) / multiple * multiple;
}

template <class Task>
class TaskList {
 public:
  void add(const Task& task, int64_t cost) {
    tasks_.push_back(task);
    starts_.push_back(total_);
    total_ += std::max<int64_t>(cost, 1);
  }
  size_t size() const { return tasks_.size(); }

  // `grain`: the cost below which no further thread is worth while. body(first, last) gets a stretch of
  // tasks.
  template <class Body>
  void run(int64_t grain, const Body& body) const {
    parallel_for(0, total_, grain, [&](int64_t from, int64_t to) {
      const auto first = std::lower_bound(starts_.begin(), starts_.end(), from) - starts_.begin();
      const auto last = std::lower_bound(starts_.begin(), starts_.end(), to) - starts_.begin();
      if (first < last) body(tasks_.data() + first, tasks_.data() + last);
    });
  }

 private:
  std::vector<Task> tasks_;
  std::vector<int64_t> starts_;
  int64_t total_ = 0;
};

}  // namespace longhaul::kernels
