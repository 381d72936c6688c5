// Progress of anything that takes longer than two seconds. On a terminal it is one bar that is redrawn,
// otherwise a plain line now and then. It is silent for the first two seconds, so that short work prints
// nothing, and where the logger shows no information (base/log.h). It writes to standard error. Thread-safe.
//
//   Progress progress("tokenizing", total_bytes, Progress::Unit::kBytes);
//   progress.advance(n);           // destructor prints the closing line when anything was shown
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace longhaul {

class Progress {
 public:
  enum class Unit { kCount, kBytes, kTokens };
  Progress(std::string label, int64_t total, Unit unit = Unit::kCount);  // total 0: unknown
  ~Progress();
  void advance(int64_t amount);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ProgressPause: while an object lives, there is no bar on the terminal. Code that writes other lines to it
// (the logger, the lines of a run) holds one meanwhile, so that they do not run into a bar; afterwards the
// bar returns. Hold it only for the writing, because drawing waits. It does not nest.
class ProgressPause {
 public:
  ProgressPause();
  ~ProgressPause();
  ProgressPause(const ProgressPause&) = delete;
  ProgressPause& operator=(const ProgressPause&) = delete;
};

// The text of a bar or a line: "tokenizing 42%  19.5 MB of 46.4 MB  3.8 MB/s  7.1 s left".
std::string progress_text(const std::string& label, int64_t done, int64_t total, Progress::Unit unit,
                          double elapsed_s, bool bar);
std::string bytes_text(int64_t bytes);  // "46.4 MB" (decimal)
std::string count_text(int64_t count);  // "2,285"

}  // namespace longhaul
