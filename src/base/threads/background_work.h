// BackgroundTask: work of a thread of its own that others go on beside and must wait for in the end: a checkpoint that is written, batches that are
// read ahead; or of the thread that trains, where it has a deadline other than its phase. It is told while it lasts, so that whoever watches over this process (observe/board/rank_board.h) sees one that hangs long before somebody
// has to wait for it.
//
//   worker.post([&] { const BackgroundTask task("write checkpoint", seconds_to_move(bytes)); … });
//   for (const BackgroundWork& work : background_work()) …        // what is under way in this process, the oldest first
//
// Any thread. One table a process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul {

struct BackgroundWork {
  std::string name;
  int64_t since_ns = 0;  // monotonic_ns() when it began
  double allowed_s = 0;  // that it may take where none of its kind was seen to end
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

// For so many bytes to a disk that is hardly fast enough to be used (20 MB/s), and ten seconds.
double seconds_to_move(int64_t bytes);

}  // namespace longhaul
