#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>

#include "base/clock.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "control/node/process_space.h"
#include "control/sensors/sensors.h"

namespace longhaul::control {
namespace {

// the kernel repeats messages of a lasting condition
constexpr int64_t kSame_ns = 60'000'000'000;
constexpr std::array<int64_t, 4> kOfApplications = {13, 31, 43, 45};  // Xids that a program itself may cause

std::optional<int64_t> number_behind(std::string_view text, std::string_view words) {
  const size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + words.size());
  while (!text.empty() && (text.front() == ' ' || text.front() == '\'')) text.remove_prefix(1);
  return leading_number<int64_t>(text);
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
std::optional<HealthReport> xid_in(const std::string& line) {
  constexpr std::string_view kBegin = "NVRM: Xid (";
  const size_t begin = line.find(kBegin), end = begin == std::string::npos ? begin : line.find("):", begin);
  if (end == std::string::npos) return std::nullopt;
  std::string device = line.substr(begin + kBegin.size(), end - begin - kBegin.size());
  if (device.starts_with("PCI:")) device.erase(0, 4);
  const auto number = number_behind(std::string_view(line).substr(end), "):");
  if (!number) return std::nullopt;
  return HealthReport{
      .kind = "xid", .code = *number, .device = "GPU " + device, .text = brief(line.substr(begin), 300)};
}

// The word that names a device in the kernel's messages about it.
std::string device_in(const std::string& line) {
  for (const std::string_view before : {"error, dev ", "error on dev ", "EXT4-fs error (device ", "XFS (",
                                        "BTRFS error (device ", "nfs: server "}) {
    const size_t at = line.find(before);
    if (at == std::string::npos) continue;
    const size_t begin = at + before.size(), end = line.find_first_of(" ,):;", begin);
    return line.substr(begin, end == std::string::npos ? end : end - begin);
  }
  if (const size_t at = line.find("nvme nvme"); at != std::string::npos)
    return line.substr(at + 5, line.find(':', at) - at - 5);
  return "";
}

std::optional<HealthReport> disk_in(const std::string& line) {
  const auto says = [&](std::string_view words) { return line.find(words) != std::string::npos; };
  const bool of_xfs =
      says("XFS (") && (says("I/O error") || says("orruption") || says("Shutting down") || says("shutdown"));
  const bool of_nvme = says("nvme nvme") && (says("controller is down") ||
                                             says("Removing after probe failure") || says("I/O timeout"));
  const bool bad = says("I/O error, dev ") || says("Buffer I/O error on dev ") ||
                   says("EXT4-fs error (device ") || says("BTRFS error (device ") ||
                   says("Remounting filesystem read-only") ||
                   (says("nfs: server ") && says("not responding")) || of_xfs || of_nvme;
  if (!bad) return std::nullopt;
  return HealthReport{.kind = "storage", .code = EIO, .device = device_in(line), .text = brief(line, 300)};
}

}  // namespace

KernelSensor::KernelSensor(const MachineRoot& root)
    : log_(root.folder / "dev/kmsg"), numbers_are_ours_(in_first_process_space(root.folder)) {}

std::optional<HealthReport> KernelSensor::report_of(const std::string& line) {
  auto report = xid_in(line);
  return report ? report : disk_in(line);
}

std::string KernelSensor::absent() const {
  return log_.problem().empty()
             ? ""
             : fmt::format("Xid numbers and errors of disks (the kernel's log, {})", log_.problem());
}

// An error that a program itself causes, in a program that is none of the ranks: the ranks go on.
bool KernelSensor::is_somebody_elses(const HealthReport& report, const std::string& line) const {
  if (report.kind != "xid" || std::ranges::find(kOfApplications, report.code) == kOfApplications.end())
    return false;
  const auto process = number_behind(line, "pid=");
  return process && numbers_are_ours_ && std::ranges::find(processes_, *process) == processes_.end();
}

std::vector<HealthReport> KernelSensor::look() {
  std::vector<HealthReport> reports;
  for (const std::string& line : log_.next()) {
    const auto report = report_of(line);
    if (!report || is_somebody_elses(*report, line)) continue;
    const auto [told, first] =
        told_ns_.emplace(fmt::format("{} {} {}", report->kind, report->code, report->device), 0);
    if (!first && monotonic_ns() - told->second < kSame_ns) continue;
    told->second = monotonic_ns();
    reports.push_back(*report);
  }
  return reports;
}

}  // namespace longhaul::control
