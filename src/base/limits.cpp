#include "base/limits.h"

#include <sys/resource.h>

#include <algorithm>

namespace longhaul {

void raise_open_file_limit() {
  constexpr rlim_t kEnough = 1 << 20;  // some systems set no limit, and programs close all numbers up to it
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace longhaul
