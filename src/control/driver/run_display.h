// RunDisplay prints the steps of a run on a driver's terminal, from the run's events. It is needed where rank
// 0 prints somewhere else: on the terminal of a driver that was killed, or into a log on another machine.
// Only the thread that calls poll() may use it.
#pragma once

#include <filesystem>

#include "observe/events/line_tail.h"
#include "observe/terminal.h"

namespace longhaul::control {

class RunDisplay {
 public:
  RunDisplay(const std::filesystem::path& run_folder, int64_t log_every);
  // Reads new events. shows: print them on the terminal; false: rank 0 prints there itself. Events that the
  // file held at the first call are old and are not printed.
  void poll(bool shows);
  bool has_shown() const { return has_shown_; }

 private:
  void take(std::string_view line, bool shows);

  observe::LineTail tail_;
  observe::Terminal terminal_;
  bool first_ = true, has_shown_ = false, told_ = false;
};

}  // namespace longhaul::control
