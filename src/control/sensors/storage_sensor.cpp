#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/progress.h"
#include "base/text/text.h"
#include "control/sensors/sensors.h"

namespace longhaul::control {
namespace {

constexpr double kLeastShare = 0.05, kLeastBytes = 10e9;

}  // namespace

std::vector<HealthReport> StorageSensor::look() {
  std::error_code problem;
  const std::filesystem::space_info space = std::filesystem::space(folder_, problem);
  if (problem) return {};  // it may not be there yet
  const auto available = static_cast<double>(space.available);
  const double least = std::min(kLeastShare * static_cast<double>(space.capacity), kLeastBytes);
  if (available > 2 * least) told_full_ = false;
  if (available >= least || std::exchange(told_full_, true)) return {};
  return {{.kind = "storage",
           .code = ENOSPC,
           .device = folder_.string(),
           .text = fmt::format("{} of {} are free", bytes_text(static_cast<int64_t>(space.available)),
                               bytes_text(static_cast<int64_t>(space.capacity)))}};
}

}  // namespace longhaul::control
