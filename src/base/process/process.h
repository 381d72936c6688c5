// Processes: child processes that are run for what they print, and the standard streams of this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul {

int64_t process_id();                     // of this one
[[noreturn]] void end_at_once(int code);  // with what was printed, without destructors: where a thread hangs that nobody can end
void pause_briefly();                     // a millisecond: for who looks again and again whether another process has done something

struct ProcessResult {
  int status = 0;          // exit code, or 128 + signal
  std::string output;      // standard output
  std::string errors;      // standard error
  bool timed_out = false;  // it ran past timeout_s and was killed, with everything it had started
};

// argv[0] is looked up on PATH. Throws kUsage when it is not found. environment: extra NAME=VALUE entries.
ProcessResult run_process(const std::vector<std::string>& argv, const std::vector<std::string>& environment = {}, double timeout_s = 600);

int status_code(int wait_status);  // what waitpid tells, as ProcessResult::status

// First thing in main. A standard stream that was closed (`>&-`) would be the next file to be opened, and log lines would land in it:
// opens those of descriptors 0, 1 and 2 that are closed on /dev/null.
void open_standard_streams();

// A core dump holds weights and training data for everyone who can read the folder it falls into, and may fill a shared disk. This process and its
// children write none, unless the environment says LONGHAUL_CORE_DUMPS=1.
void forbid_core_dumps();

}  // namespace longhaul
