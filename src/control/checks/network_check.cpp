#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/machine/kernel_file.h"
#include "base/net/loopback.h"
#include "base/text/text.h"
#include "control/checks/machine_checks.h"

namespace longhaul::control {
namespace {

// The way between a card and the machine's memory: a card in a slot of half its lanes, or one that trained at
// a lower speed, has a fraction of the bandwidth that its own port tells. `device`: its folder of the PCI
// bus.
void look_at_bus(const std::filesystem::path& device, const std::string& name, CheckFinding& finding) {
  const double lanes = kernel_number(device / "current_link_width"),
               most_lanes = kernel_number(device / "max_link_width");
  // GT/s
  const double speed = kernel_number(device / "current_link_speed"),
               most_speed = kernel_number(device / "max_link_speed");
  if (lanes <= 0 || speed <= 0) return;  // it is on another bus, or a virtual one
  finding.values[name + "_pcie_gigatransfers_per_second"] = lanes * speed;
  if (lanes >= most_lanes && speed >= most_speed) return;
  finding.found += fmt::format("{} has {:.0f} lanes of PCIe at {:g} GT/s, ", name, lanes, speed);
  finding.make(CheckStatus::kSlow,
               fmt::format("{:.0f} lanes at {:g} GT/s, as the card has them", most_lanes, most_speed),
               fmt::format("lspci -vv -s {}: the slot, the riser, the firmware",
                           std::filesystem::weakly_canonical(device).filename().string()));
}

// A physical interface has a device; bridges, virtual pairs of containers and the loopback have none.
void look_at_interface(const std::filesystem::path& interface, double most_errors, CheckFinding& finding) {
  const std::string name = interface.filename().string();
  const std::string state = kernel_line(interface / "operstate");
  // Mbit/s; unknown and -1 where the driver has none
  const double speed = kernel_number(interface / "speed");
  const double packets =
      kernel_number(interface / "statistics/rx_packets") + kernel_number(interface / "statistics/tx_packets");
  const double errors = kernel_number(interface / "statistics/rx_errors") +
                        kernel_number(interface / "statistics/tx_errors") +
                        kernel_number(interface / "statistics/rx_crc_errors");
  finding.found +=
      fmt::format("{} {}{}, ", name, state, speed > 0 ? fmt::format(" {:.0f} Gbit/s", speed / 1000) : "");
  if (speed > 0) finding.values[name + "_bits_per_second"] = speed * 1e6;
  finding.values[name + "_errors"] = errors;
  if (state == "down") {
    finding.make(CheckStatus::kSlow, "interfaces that are up",
                 "ip link show " + name + ": a cable, a port of the switch, or one that is meant to be down");
  }
  look_at_bus(interface / "device", name, finding);
  // A few errors remain from the start of the link.
  if (errors > 100 && errors > most_errors * packets) {
    finding.found += fmt::format("{:.0f} errors in {:.0f} packets, ", errors, packets);
    finding.make(CheckStatus::kSlow, fmt::format("errors in less than {:g} of the packets", most_errors),
                 "a cable or transceiver: ethtool -S " + name);
  }
}

void look_at_infiniband(const std::filesystem::path& folder, CheckFinding& finding) {
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator(folder, none)) {
    look_at_bus(device.path() / "device", device.path().filename().string(), finding);
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", none)) {
      const std::string state = kernel_line(port.path() / "state");  // "4: ACTIVE"
      const std::string name =
          fmt::format("{} port {}", device.path().filename().string(), port.path().filename().string());
      finding.found += fmt::format("{} {} {}, ", name, state, kernel_line(port.path() / "rate"));
      if (state.find("ACTIVE") == std::string::npos)
        finding.make(CheckStatus::kFailed, "ACTIVE",
                     "ibstat: the cable, the switch's port, the subnet manager");
    }
  }
}

}  // namespace

CheckFinding network_check(const CheckContext& context, const std::filesystem::path& interfaces) {
  CheckFinding finding{.name = "network"};
  std::error_code none;
  std::vector<std::filesystem::path> found;
  for (const auto& one : std::filesystem::directory_iterator(interfaces, none)) {
    if (std::filesystem::exists(one.path() / "device", none)) found.push_back(one.path());
  }
  std::sort(found.begin(), found.end());
  for (const auto& one : found) look_at_interface(one, context.limits["network_errors_share"], finding);
  look_at_infiniband(interfaces.parent_path() / "infiniband", finding);
  try {
    LoopbackRate rate = measured_loopback();
    if (context.plant) rate.intact = false;
    finding.found += fmt::format("loopback {:.0f} MB/s, {:.3f} ms there and back",
                                 rate.bytes_per_second / 1e6, rate.round_trip_ms);
    finding.values["loopback_bytes_per_second"] = rate.bytes_per_second;
    finding.values["loopback_milliseconds"] = rate.round_trip_ms;
    if (!rate.intact)
      finding.make(CheckStatus::kFailed, "the bytes that were sent",
                   "memory or the network stack changes them: take the machine out");
    const double least = context.limits["loopback_bytes_per_second"],
                 most = context.limits["loopback_milliseconds"];
    if (rate.bytes_per_second < least || rate.round_trip_ms > most) {
      finding.make(CheckStatus::kSlow, fmt::format("{:.0f} MB/s and {:.0f} ms", least / 1e6, most),
                   "other programs are using the cores: top");
    }
  } catch (const Error& error) {
    finding.found += error.fields().found;
    finding.make(CheckStatus::kFailed, "a connection of this machine to itself", error.fields().hint);
  }
  return finding;
}

}  // namespace longhaul::control
