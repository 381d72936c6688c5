// BackgroundTask registers work for which other threads must wait in the end: work of a background thread,
// such as writing a checkpoint or prefetching batches, or work of the training thread that has another
// deadline than its phase. It is visible while it lasts, so that the watcher of this process
// (observe/board/rank_board.h) sees work that hangs long before somebody has to wait for it.
//
//   worker.post([&] { const BackgroundTask task("write checkpoint", seconds_to_move(bytes)); … });
//   // the work in progress in this process, oldest first
//   for (const BackgroundWork& work : background_work()) …
//
// Any thread may use it. There is one table per process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

struct BackgroundWork {
  std::string name;
  int64_t since_ns = 0;  // monotonic_ns() when it began
  double allowed_s = 0;  // time limit while none of its kind has been seen to end
  bool operator==(const BackgroundWork&) const = default;
};

class BackgroundTask {
 public:
  explicit BackgroundTask(std::string_view name, double allowed_s = 0);
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

 private:
  int64_t number_;
};

std::vector<BackgroundWork> background_work();

// A generous time for so many bytes: ten seconds plus the time of a disk that is hardly fast enough (20
// MB/s).
double seconds_to_move(int64_t bytes);

}  // namespace longhaul
