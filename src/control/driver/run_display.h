// RunDisplay: the steps of a run on a driver's terminal, from the run's events, where rank 0 speaks somewhere else: on the terminal of a driver
// that was killed, or in a log on another machine. Belongs to the thread that polls.
#pragma once

#include <filesystem>

#include "observe/events/line_tail.h"
#include "observe/terminal.h"

namespace longhaul::control {

class RunDisplay {
 public:
  RunDisplay(const std::filesystem::path& run_folder, int64_t log_every);
  // Reads what is new. shows: on the terminal; false: rank 0 speaks there itself. What the file held at the first call is history, and not shown.
  void poll(bool shows);
  bool has_shown() const { return has_shown_; }

 private:
  void take(std::string_view line, bool shows);

  observe::LineTail tail_;
  observe::Terminal terminal_;
  bool first_ = true, has_shown_ = false, told_ = false;
};

}  // namespace longhaul::control
