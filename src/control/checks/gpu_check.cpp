// Reads nvidia-smi's own table. Fields that a GPU or driver does not know are [N/A] there and are skipped.
#include <array>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/process/process.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "control/checks/machine_checks.h"

namespace longhaul::control {
namespace {

constexpr const char* kQuery =
    "--query-gpu=name,driver_version,pcie.link.width.current,pcie.link.width.max,temperature.gpu,"
    "ecc.errors.uncorrected.volatile.total,remapped_rows.pending,remapped_rows.failure,retired_pages.pending";
enum Column {
  kName,
  kDriver,
  kWidth,
  kMostWidth,
  kTemperature,
  kUncorrected,
  kRemapPending,
  kRemapFailed,
  kRetiredPending,
  kColumns
};

struct GpuRow {
  std::array<std::string, kColumns> fields;
  double number(Column column) const {  // NaN: not known
    return leading_number<double>(fields[column]).value_or(std::nan(""));
  }
  bool says_yes(Column column) const { return fields[column] == "Yes" || number(column) > 0; }
};

std::vector<GpuRow> rows_of(const std::string& table) {
  std::vector<GpuRow> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    GpuRow row;
    const std::vector<std::string_view> cells = split(line, ',');
    if (cells.size() < kColumns) continue;
    for (size_t column = 0; column < kColumns; ++column) row.fields[column] = trimmed(cells[column]);
    rows.push_back(std::move(row));
  }
  return rows;
}

void look_at(const GpuRow& gpu, size_t index, const Limits& limits, CheckFinding& finding) {
  const std::string name = fmt::format("GPU {}", index);
  const std::string key = fmt::format("gpu{}_", index);
  finding.values[key + "temperature_celsius"] = gpu.number(kTemperature);
  if (gpu.number(kUncorrected) > 0) {
    finding.make(CheckStatus::kFailed, name + ": no uncorrected memory error since the driver was loaded",
                 "take the machine out: nvidia-smi -q -d ECC");
  }
  if (gpu.says_yes(kRemapFailed))
    finding.make(CheckStatus::kFailed, name + ": rows that can be remapped",
                 "the GPU is to be replaced: nvidia-smi -q -d ROW_REMAPPER");
  if (gpu.says_yes(kRemapPending) || gpu.says_yes(kRetiredPending)) {
    finding.make(CheckStatus::kSlow, name + ": no repair of its memory that waits",
                 "nvidia-smi --gpu-reset between two runs carries it out");
  }
  if (gpu.number(kWidth) < gpu.number(kMostWidth)) {
    finding.make(
        CheckStatus::kSlow,
        fmt::format("{}: {} lanes of PCIe, not {}", name, gpu.fields[kMostWidth], gpu.fields[kWidth]),
        "the card's seat or its riser; lspci -vv");
  }
  if (gpu.number(kTemperature) > limits["gpu_temperature_celsius"]) {
    finding.make(CheckStatus::kSlow,
                 fmt::format("{}: at most {:.0f} degrees", name, limits["gpu_temperature_celsius"]),
                 "cooling; the GPU lowers its clocks");
  }
}

}  // namespace

CheckFinding gpu_check(const CheckContext& context, const std::string& nvidia_smi) {
  CheckFinding finding{.name = "gpu"};
  const double wanted = context.limits["gpus"];
  std::vector<GpuRow> gpus;
  std::string problem;
  try {
    // Nothing that is asked here changes a setting.
    const ProcessResult answer = run_process({nvidia_smi, kQuery, "--format=csv,noheader,nounits"}, {}, 15);
    if (answer.timed_out) problem = "nvidia-smi does not end";
    if (!answer.timed_out && answer.status != 0)
      problem = brief(printable(answer.output + answer.errors), 200);
    if (problem.empty()) gpus = rows_of(answer.output);
  } catch (const Error&) {
    // It is not installed.
    finding.status = wanted > 0 ? CheckStatus::kPassed : CheckStatus::kSkipped;
    finding.found = "no nvidia-smi on this machine";
  }
  if (!problem.empty()) {
    finding.found = problem;
    finding.make(
        CheckStatus::kFailed, "a driver that answers",
        "dmesg | grep -i -e nvrm -e xid; a GPU that fell off the bus needs the machine started anew");
    return finding;
  }
  for (size_t i = 0; i < gpus.size(); ++i) {
    look_at(gpus[i], i, context.limits, finding);
    finding.found +=
        (i == 0 ? "" : "; ") + gpus[i].fields[kName] + ", " + gpus[i].fields[kTemperature] + " C";
  }
  std::erase_if(finding.values, [](const auto& value) { return !std::isfinite(value.second); });
  finding.values["gpus"] = static_cast<double>(gpus.size());
  if (!gpus.empty()) finding.fingerprints.push_back({"NVIDIA driver", gpus.front().fields[kDriver]});
  if (static_cast<double>(gpus.size()) < wanted) {
    finding.make(CheckStatus::kFailed, fmt::format("{:.0f} GPUs", wanted),
                 "one fell off the bus, or was never there: nvidia-smi -L, dmesg | grep -i xid");
  }
  return finding;
}

}  // namespace longhaul::control
