// How much a process may have of what the system gives out: of this one, as much as it can get; of another one for a while as little as a full
// disk or a machine at its limits leaves it.
#pragma once

#include <cstdint>

namespace longhaul {

// This process may have as many open files as its user may (a million at most): how many that are. The usual limit of 1,024 is of the days of
// select(); a driver of hundreds of ranks and a loader of thousands of files need more. Processes that are started from here have it too.
int64_t raise_open_files();

// While it lives, another process of this user may have no more of it.
class ProcessLimit {
 public:
  enum class Kind { kFileBytes, kOpenFiles };
  ProcessLimit(int64_t process, Kind kind, int64_t most);  // kInternal where it cannot be set
  ~ProcessLimit();
  ProcessLimit(const ProcessLimit&) = delete;
  ProcessLimit& operator=(const ProcessLimit&) = delete;

 private:
  int64_t process_;
  Kind kind_;
  uint64_t before_ = 0;
};

}  // namespace longhaul
