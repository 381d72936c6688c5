// A program of somebody else that reads what it is given and is not trusted to end: run_limited() kills it,
// and all that it has started in its process group, when its time is over and also when it has ended by
// itself. As run_process (base/process/process.h) otherwise, beside which it is implemented.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct LimitedRun {
  std::vector<std::string> argv;  // argv[0] is looked up on PATH
  std::string input;              // its standard input, which it need not read
  double timeout_s = 60;
};

struct LimitedResult {
  int status = 0;  // exit code, or 128 + signal
  std::string output, errors;
  bool timed_out = false;
  bool left_behind = false;  // it ended, and processes of its group went on until they were killed
};

LimitedResult run_limited(const LimitedRun& run);

}  // namespace longhaul
