#include "observe/board/node_lease.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>

#include "base/clock.h"
#include "base/error.h"

namespace longhaul::observe {
namespace {

using Until = std::atomic<int64_t>;
static_assert(Until::is_always_lock_free);

}  // namespace

NodeLease::NodeLease(const std::filesystem::path& path) : file_(SharedFile::create(path, sizeof(Until))) {
  new (file_.data()) Until(0);
  renew(3600);  // until it is renewed for the first time
  file_.publish();
}

void NodeLease::renew(double seconds) {
  reinterpret_cast<Until*>(file_.data())
      ->store(monotonic_ns() + std::llround(seconds * 1e9), std::memory_order_relaxed);
}

std::optional<LeaseWatch> LeaseWatch::open(const std::filesystem::path& path) {
  std::optional<SharedFile> file = SharedFile::open(path, sizeof(Until));
  if (!file) return std::nullopt;
  return LeaseWatch(std::move(*file));
}

std::optional<LeaseWatch> LeaseWatch::from_environment() {
  const char* path = std::getenv("LONGHAUL_LEASE");
  if (path == nullptr || *path == '\0') return std::nullopt;
  std::optional<LeaseWatch> watch = open(path);
  if (watch) return watch;
  throw Error({.code = ExitCode::kUsage,
               .what = "the lease of this rank's node is not there",
               .expected = "a file that its daemon keeps",
               .found = path,
               .where = "LONGHAUL_LEASE"});
}

double LeaseWatch::over_s() const {
  const int64_t until = reinterpret_cast<const Until*>(file_.data())->load(std::memory_order_relaxed);
  return static_cast<double>(monotonic_ns() - until) * 1e-9;
}

}  // namespace longhaul::observe
