#include "base/process/process_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace longhaul {
namespace {

auto resource_of(ProcessLimit::Kind kind) {
  return kind == ProcessLimit::Kind::kFileBytes ? RLIMIT_FSIZE : RLIMIT_NOFILE;
}

}  // namespace

ProcessLimit::ProcessLimit(int64_t process, Kind kind, int64_t most) : process_(process), kind_(kind) {
  rlimit limit{};
  const auto pid = static_cast<pid_t>(process);
  if (::prlimit(pid, resource_of(kind), nullptr, &limit) == 0) {
    before_ = std::exchange(limit.rlim_cur, static_cast<rlim_t>(most));
    if (::prlimit(pid, resource_of(kind), &limit, nullptr) == 0) return;
  }
  throw Error({.code = ExitCode::kInternal,
               .what = "the limits of a process cannot be set",
               .found = std::generic_category().message(errno),
               .where = fmt::format("process {}", process)});
}

ProcessLimit::~ProcessLimit() {
  rlimit limit{};
  const auto pid = static_cast<pid_t>(process_);
  if (::prlimit(pid, resource_of(kind_), nullptr, &limit) != 0) return;  // it has ended
  limit.rlim_cur = before_;
  ::prlimit(pid, resource_of(kind_), &limit, nullptr);
}

int64_t raise_open_files() {
  // Some systems set no limit, and some programs close all numbers up to it.
  constexpr rlim_t kEnough = 1 << 20;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return static_cast<int64_t>(kEnough);
  const rlim_t wanted = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
  }
  return static_cast<int64_t>(std::min(limit.rlim_cur, kEnough));
}

}  // namespace longhaul
