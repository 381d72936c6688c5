#include "base/process/own_mounts.h"

#include <sched.h>
#include <sys/mount.h>

namespace longhaul {

bool sees_mounts_of_its_own() {
  thread_local const bool own =
      ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return own;
}

}  // namespace longhaul
