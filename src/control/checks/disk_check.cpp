#include "base/checksum.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/file.h"
#include "base/machine/disk_rate.h"
#include "base/progress.h"
#include "control/checks/machine_checks.h"

namespace longhaul::control {

CheckFinding disk_check(const CheckContext& context) {
  CheckFinding finding{.name = "disk"};
  const int64_t free_bytes = free_disk_bytes(context.folder);
  const double least_free = context.limits["disk_free_bytes"];
  finding.values["free_bytes"] = static_cast<double>(free_bytes);
  if (static_cast<double>(free_bytes) < least_free) {
    finding.found = fmt::format("{}: {} free", context.folder.string(), bytes_text(free_bytes));
    finding.make(CheckStatus::kFailed, fmt::format("{} free", bytes_text(static_cast<int64_t>(least_free))),
                 "make room, or put the run on another disk: --run DIR");
    return finding;
  }
  try {
    DiskRate rate = measured_disk_rate(context.folder, static_cast<int64_t>(context.limits["disk_bytes"]));
    if (context.plant) rate.intact = false;
    finding.found =
        fmt::format("{}: {} free, write {:.0f} MB/s, read {:.0f} MB/s, fsync {:.2f} ms",
                    context.folder.string(), bytes_text(free_bytes), rate.write_bytes_per_second / 1e6,
                    rate.read_bytes_per_second / 1e6, rate.fsync_ms);
    finding.values["disk_write_bytes_per_second"] = rate.write_bytes_per_second;
    finding.values["disk_read_bytes_per_second"] = rate.read_bytes_per_second;
    finding.values["fsync_milliseconds"] = rate.fsync_ms;
    if (!rate.intact) {
      finding.found += ", and what was read is not what was written";
      finding.make(CheckStatus::kFailed, "the bytes that were written",
                   "dmesg and smartctl -a tell more; keep no checkpoint there");
    }
    const double slow_write = context.limits["disk_write_bytes_per_second"],
                 slow_sync = context.limits["disk_fsync_milliseconds"];
    if (rate.write_bytes_per_second < slow_write || rate.fsync_ms > slow_sync) {
      finding.make(CheckStatus::kSlow, fmt::format("{:.0f} MB/s and {:.0f} ms", slow_write / 1e6, slow_sync),
                   "checkpoints will take long: another disk, --run DIR");
    }
  } catch (const Error& error) {
    finding.found = fmt::format("{}: {}", context.folder.string(), error.fields().found);
    finding.make(CheckStatus::kFailed, "a folder that can be written",
                 "mount, rights and quota of that folder");
  }
  return finding;
}

}  // namespace longhaul::control
