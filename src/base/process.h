// Child processes: run a program, capture what it prints.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

struct ProcessResult {
  int status = 0;          // exit code, or 128 + signal
  std::string output;      // standard output
  std::string errors;      // standard error
  bool timed_out = false;  // it ran past timeout_s and was killed, with everything it had started
};

// argv[0] is looked up on PATH. Throws kUsage when it is not found. environment: extra NAME=VALUE entries.
ProcessResult run_process(const std::vector<std::string>& argv, const std::vector<std::string>& environment = {}, double timeout_s = 600);

}  // namespace longhaul
