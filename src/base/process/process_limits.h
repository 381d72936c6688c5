// Limits on a process's resources: they are raised for this process as far as possible, and lowered for
// another one for a while to test a full disk or a machine at its limits.
#pragma once

#include <cstdint>

namespace longhaul {

// Raises this process's limit of open files to what its user may have (at most a million), and returns it.
// The usual limit of 1,024 is for select(); a driver of hundreds of ranks and a loader of thousands of files
// need more. Child processes inherit it.
int64_t raise_open_files();

// ProcessLimit: while an object lives, another process of this user may have no more than `most` of a
// resource.
class ProcessLimit {
 public:
  enum class Kind { kFileBytes, kOpenFiles };
  ProcessLimit(int64_t process, Kind kind, int64_t most);  // kInternal where the limit cannot be set
  ~ProcessLimit();
  ProcessLimit(const ProcessLimit&) = delete;
  ProcessLimit& operator=(const ProcessLimit&) = delete;

 private:
  int64_t process_;
  Kind kind_;
  uint64_t before_ = 0;
};

}  // namespace longhaul
