
#include "base/machine/kernel_file.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "control/sensors/sensors.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

constexpr int kLooks = 6;  // in a row: clocks drop for a moment on healthy machines too

}  // namespace

std::vector<HealthReport> HeatSensor::look() {
  double count = 0;
  bool any = false;
  std::error_code none;
  for (const auto& cpu : fs::directory_iterator(root_ / "sys/devices/system/cpu", none)) {
    const std::string text = kernel_line(cpu.path() / "thermal_throttle/package_throttle_count");
    const std::optional<double> value = leading_number<double>(text);
    if (!value) continue;
    count += *value, any = true;
  }
  if (!any) return {};
  rising_ = count_ && count > *count_ ? rising_ + 1 : 0;
  count_ = count;
  if (rising_ == 0) told_ = false;
  if (rising_ < kLooks || told_) return {};
  told_ = true;
  return {{.kind = "throttled",
           .device = "processors",
           .text = "they lower their clocks for heat again and again: look at the cooling"}};
}

}  // namespace longhaul::control
