// A supervised run that drills are done to (faults.h): started as a person would, and what is done to it from outside.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "bench/driver/faults.h"

namespace longhaul::bench {

// Until the run has ended: what is done from outside, and a driver that was killed is typed again. Exit code of `launch`, or 128 + signal; nothing: it
// took too long. A run whose disk is to be full is on a file system of its own, which is gone when this returns: `judge` is called before.
std::optional<int> run_drills(const std::filesystem::path& folder, const std::filesystem::path& run, int64_t ranks, const DrillPlan& plan,
                              const std::filesystem::path& marks, const std::function<void(const std::optional<int>& status)>& judge);

}  // namespace longhaul::bench
