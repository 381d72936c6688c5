#include <algorithm>
#include <sstream>

#include "base/machine/kernel_file.h"
#include "base/text/text.h"
#include "control/sensors/sensors.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

// A few errors remain from the start of a link.
constexpr double kFewErrors = 100, kErrorShare = 1e-4;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& one : fs::directory_iterator(folder, none)) found.push_back(one.path());
  std::ranges::sort(found);
  return found;
}

// Interfaces of the default route: in a container that is a virtual one without a device.
std::set<std::string> default_routes(const fs::path& file) {
  std::set<std::string> names;
  std::istringstream lines(kernel_text(file));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name, destination;
    if (fields >> name >> destination && destination == "00000000") names.insert(name);
  }
  return names;
}

}  // namespace

// Interfaces that were never up are intentionally down.
void LinkSensor::look_at(const std::string& name, const fs::path& folder,
                         std::vector<HealthReport>& reports) {
  const auto [found, first] = interfaces_.try_emplace(name);
  Interface& known = found->second;
  known.gone = false;
  // The carrier changes immediately; the state follows within a second.
  const std::string state = kernel_line(folder / "operstate"), carrier = kernel_line(folder / "carrier");
  const bool up = carrier.empty() ? state == "up" : carrier == "1";
  const double downs = kernel_number(folder / "carrier_down_count"), speed = kernel_number(folder / "speed");
  const double packets =
      kernel_number(folder / "statistics/rx_packets") + kernel_number(folder / "statistics/tx_packets");
  const double errors =
      kernel_number(folder / "statistics/rx_errors") + kernel_number(folder / "statistics/tx_errors");
  if (!first && ((known.up && !up) || (downs > known.downs && (known.up || up)))) {
    reports.push_back({.kind = "network",
                       .device = name,
                       .text = up ? fmt::format("its link was lost and is back ({:.0f} times so far)", downs)
                                  : "its link is lost"});
  }
  const bool slow = up && speed > 0 && speed < known.speed;
  if (slow && !known.slow) {
    reports.push_back(
        {.kind = "degraded_link",
         .device = name,
         .text = fmt::format("it runs at {:.0f} Mbit/s, and ran at {:.0f}", speed, known.speed)});
  }
  const double more = errors - known.errors, of_packets = packets - known.packets;
  const bool noisy = !first && more > kFewErrors && more > kErrorShare * of_packets;
  if (noisy && !known.noisy) {
    reports.push_back({.kind = "degraded_link",
                       .device = name,
                       .text = fmt::format("{:.0f} errors in the last {:.0f} packets: ethtool -S {}", more,
                                           of_packets, name)});
  }
  known = {.up = up,
           .downs = downs,
           .speed = std::max(speed, known.speed),
           .packets = packets,
           .errors = errors,
           .slow = slow,
           .noisy = known.noisy || noisy};
}

// "4: ACTIVE"; "200 Gb/sec (4X HDR)"; the port's counters are in the same folder.
void LinkSensor::look_at_port(const std::string& name, const fs::path& port,
                              std::vector<HealthReport>& reports) {
  const auto [found, first] = interfaces_.try_emplace(name);
  Interface& known = found->second;
  known.gone = false;
  const std::string state = kernel_line(port / "state"), rate = kernel_line(port / "rate");
  const bool up = state.find("ACTIVE") != std::string::npos;
  const double downs = kernel_number(port / "counters/link_downed"), speed = kernel_number(port / "rate");
  const double errors = kernel_number(port / "counters/symbol_error") +
                        kernel_number(port / "counters/port_rcv_errors") +
                        kernel_number(port / "counters/link_error_recovery");
  if (!first && ((known.up && !up) || (downs > known.downs && (known.up || up)))) {
    reports.push_back({.kind = "network",
                       .device = name,
                       .text = up ? fmt::format("its link was lost and is back ({:.0f} times so far)", downs)
                                  : "its port is " + state});
  }
  const bool slow = up && speed > 0 && speed < known.speed,
             noisy = !first && errors - known.errors > kFewErrors;
  if (slow && !known.slow)
    reports.push_back({.kind = "degraded_link",
                       .device = name,
                       .text = fmt::format("it runs at {}, and ran at {:.0f}", rate, known.speed)});
  if (noisy && !known.noisy) {
    reports.push_back({.kind = "degraded_link",
                       .device = name,
                       .text = fmt::format("{:.0f} errors of symbols and packets since the last look",
                                           errors - known.errors)});
  }
  known = {.up = up,
           .downs = downs,
           .speed = std::max(speed, known.speed),
           .errors = errors,
           .slow = slow,
           .noisy = known.noisy || noisy};
}

// A card that its driver has given up has no folder any more.
void LinkSensor::look_for_lost(const std::set<std::string>& present, std::vector<HealthReport>& reports) {
  for (auto& [name, known] : interfaces_) {
    if (present.contains(name) || known.gone) continue;
    if (known.up)
      reports.push_back({.kind = "device_missing", .device = name, .text = "the network device is gone"});
    known.gone = true;
  }
}

// A simultaneous change of several links is one event: a card, a switch.
std::vector<HealthReport> LinkSensor::in_one(const std::vector<HealthReport>& reports) {
  std::vector<HealthReport> joined;
  for (const HealthReport& report : reports) {
    const auto before = std::ranges::find(joined, "network", &HealthReport::kind);
    if (report.kind != "network" || before == joined.end()) {
      joined.push_back(report);
    } else {
      before->device += ", " + report.device;
      before->text += "; " + report.device + ": " + report.text;
    }
  }
  return joined;
}

std::vector<HealthReport> LinkSensor::look() {
  std::vector<HealthReport> reports;
  std::set<std::string> present;
  const std::set<std::string> routes = default_routes(root_ / "proc/net/route");
  std::error_code none;
  for (const fs::path& folder : entries(root_ / "sys/class/net")) {
    const std::string name = folder.filename().string();
    const bool matters =
        fs::exists(folder / "device", none) || routes.contains(name) || interfaces_.contains(name);
    if (!matters) continue;
    present.insert(name);
    look_at(name, folder, reports);
  }
  for (const fs::path& device : entries(root_ / "sys/class/infiniband")) {
    for (const fs::path& port : entries(device / "ports")) {
      const std::string name = device.filename().string() + "/" + port.filename().string();
      present.insert(name);
      look_at_port(name, port, reports);
    }
  }
  look_for_lost(present, reports);
  return in_one(reports);
}

}  // namespace longhaul::control
