// How much a process may have of what the system gives out: of this one, as much as it can get; of another one for a while as little as a full
// disk or a machine at its limits leaves it.
#pragma once

#include <cstdint>

namespace longhaul {

int64_t raise_open_files();  // of this process, to as many as it may have: how many that are

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
