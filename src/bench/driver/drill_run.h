// A supervised run for drills (faults.h): it is started as a person would start it, and faults are injected
// from outside.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "bench/driver/faults.h"

namespace longhaul::bench {

// Injects the faults from outside until the run has ended, and starts a driver that was killed again.
// Returns the exit code of `launch`, or 128 + signal; nothing: it took too long. If a drill fills the disk,
// the run has a file system of its own, which has gone when this returns; therefore `judge` is called
// before.
std::optional<int> run_drills(const std::filesystem::path& folder, const std::filesystem::path& run,
                              int64_t ranks, const DrillPlan& plan, const std::filesystem::path& marks,
                              const std::function<void(const std::optional<int>& status)>& judge);

}  // namespace longhaul::bench
