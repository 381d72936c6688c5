// Processes: child processes that are run for their output, and the standard streams of this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

int64_t process_id();  // of this process
// Flushes the output but runs no destructors: for when a thread hangs that nobody can end.
[[noreturn]] void end_at_once(int code);
void pause_briefly();  // a millisecond: for polling what another process does

struct ProcessResult {
  int status = 0;      // exit code, or 128 + signal
  std::string output;  // standard output
  std::string errors;  // standard error
  // It ran longer than timeout_s and was killed, with all processes that it had started.
  bool timed_out = false;
};

// argv[0] is looked up on PATH. Throws kUsage when it is not found. environment: extra NAME=VALUE entries.
ProcessResult run_process(const std::vector<std::string>& argv,
                          const std::vector<std::string>& environment = {}, double timeout_s = 600);

int status_code(int wait_status);  // converts the status from waitpid to ProcessResult::status

// Call it first in main. If a standard stream was closed (`>&-`), the next opened file would get its
// descriptor, and log lines would go into that file. Therefore closed descriptors among 0, 1 and 2 are opened
// on /dev/null.
void open_standard_streams();

// A core dump would expose weights and training data to everyone who can read its folder, and may fill a
// shared disk. This process and its children write none, unless the environment has LONGHAUL_CORE_DUMPS=1.
void forbid_core_dumps();

}  // namespace longhaul
