// ProcessIdentity: names a process so that another one, perhaps much later, can tell whether it still runs.
// A number alone does not: numbers are given out again, and every machine and container counts its own.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul {

struct ProcessIdentity {
  std::string host;     // for people
  std::string machine;  // the host's start and the container: where the number counts
  int64_t process = 0;
  int64_t started = 0;  // in clock ticks of the machine since its start; 0: unknown
  bool operator==(const ProcessIdentity&) const = default;
};

const ProcessIdentity& own_identity();

// kElsewhere: the process belongs to another machine or container, or to another start of this machine whose
// end nobody can see from here.
enum class Presence { kRuns, kGone, kElsewhere };
Presence presence_of(const ProcessIdentity& of);

}  // namespace longhaul
