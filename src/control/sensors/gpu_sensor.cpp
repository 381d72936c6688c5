#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include <utility>

#include "base/error.h"
#include "base/process/process.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "control/sensors/sensors.h"

namespace longhaul::control {
namespace {

// The time limit of a query; a driver whose card has fallen off the bus does not answer.
constexpr double kAnswer_s = 20;
constexpr int kMissingLooks = 2, kHotLooks = 3;
// by the hardware, for heat (software, hardware), for lack of power
constexpr uint64_t kThrottled = 0x08 | 0x20 | 0x40 | 0x80;

constexpr const char* kHealthQuery =
    "--query-gpu=uuid,pci.bus_id,clocks_throttle_reasons.active,ecc.errors.uncorrected.volatile.total,"
    "remapped_rows.pending,"
    "remapped_rows.failure";
enum HealthColumn { kUuid, kBus, kThrottle, kUncorrectable, kRepairWaits, kRepairFailed, kHealthColumns };

bool says_yes(const std::string& text) {
  return text == "Yes" || (!text.empty() && text[0] >= '1' && text[0] <= '9');
}

// "0x0000000000000040"; "[N/A]" and the like are none.
uint64_t bits_of(const std::string& text) {
  if (!text.starts_with("0x")) return 0;
  return leading_number<uint64_t>(std::string_view(text).substr(2), 16).value_or(0);
}

}  // namespace

// Without a table, `said_` has the printed text.
std::vector<GpuSensor::Row> GpuSensor::rows() {
  std::vector<Row> table;
  const ProcessResult answer =
      run_process({root_.nvidia_smi, kHealthQuery, "--format=csv,noheader,nounits"}, {}, kAnswer_s);
  std::istringstream lines(answer.output);
  for (std::string line; std::getline(lines, line);) {
    Row row;
    for (const std::string_view cell : split(line, ',')) row.emplace_back(trimmed(cell));
    if (row.size() == kHealthColumns && row[kUuid].starts_with("GPU-")) table.push_back(std::move(row));
  }
  if (table.empty())
    said_ =
        answer.timed_out ? "nvidia-smi does not end" : brief(printable(answer.output + answer.errors), 200);
  return table;
}

void GpuSensor::look_at(const Row& row, std::vector<HealthReport>& reports) {
  const auto [found, first] = gpus_.try_emplace(row[kUuid]);
  Gpu& known = found->second;
  const std::string device = fmt::format("{} ({})", row[kUuid], row[kBus]);
  known.missing = 0, known.told_missing = false;
  const double uncorrected = leading_number<double>(row[kUncorrectable]).value_or(0);
  const bool repair_waits = says_yes(row[kRepairWaits]);
  if (says_yes(row[kRepairFailed]) && !std::exchange(known.told_broken, true)) {
    reports.push_back({.kind = "device_broken",
                       .device = device,
                       .text = "rows of its memory cannot be repaired any more"});
  } else if (!first && uncorrected > known.uncorrected) {
    reports.push_back({.kind = "device_degraded",
                       .device = device,
                       .text = fmt::format("{:.0f} errors of its memory that could not be corrected",
                                           uncorrected - known.uncorrected)});
  } else if (!first && repair_waits && !known.repair_waits) {
    reports.push_back(
        {.kind = "device_degraded", .device = device, .text = "a repair of its memory waits for a reset"});
  }
  known.uncorrected = uncorrected, known.repair_waits = repair_waits;
  known.hot = (bits_of(row[kThrottle]) & kThrottled) != 0 ? known.hot + 1 : 0;
  if (known.hot == 0) known.told_hot = false;
  if (known.hot >= kHotLooks && !std::exchange(known.told_hot, true))
    reports.push_back({.kind = "throttled",
                       .device = device,
                       .text = fmt::format("it lowers its clocks: reasons {}", row[kThrottle])});
}

std::vector<HealthReport> GpuSensor::look() {
  std::vector<HealthReport> reports;
  if (!there_) return reports;
  std::vector<Row> table;
  try {
    table = rows();
  } catch (const Error&) {  // it is not installed
    there_ = false;
    std::error_code none;
    if (std::filesystem::exists(root_.folder / "proc/driver/nvidia", none))
      absent_ = "GPUs that are lost or hot (no nvidia-smi)";
    return reports;
  }
  for (const Row& row : table) look_at(row, reports);
  for (auto& [uuid, known] : gpus_) {
    const bool present =
        std::ranges::any_of(table, [&, &wanted = uuid](const Row& row) { return row[kUuid] == wanted; });
    if (present || ++known.missing < kMissingLooks || std::exchange(known.told_missing, true)) continue;
    reports.push_back(
        {.kind = "device_missing",
         .device = uuid,
         .text = table.empty() ? "nvidia-smi lists no GPU: " + said_ : "nvidia-smi lists it no more"});
  }
  return reports;
}

}  // namespace longhaul::control
