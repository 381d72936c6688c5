#include <algorithm>

#include "base/machine/kernel_file.h"
#include "base/text/text.h"
#include "control/sensors/sensors.h"

namespace longhaul::control {
namespace {

namespace fs = std::filesystem;

constexpr int kNarrowLooks = 2;

// By the PCI class of the card: "0x030200" is a 3-D controller, "0x020000" an Ethernet one. Other cards are
// not used for training.
std::string kind_of(const fs::path& card) {
  const std::string kind = kernel_line(card / "class");
  if (kind.starts_with("0x03") || kind.starts_with("0x12")) return "GPU";
  if (kind.starts_with("0x02")) return "network card";
  return "";
}

}  // namespace

// The number of lanes shows the state of slot and riser; the speed of each lane drops by itself when a card
// is idle.
void DeviceSensor::look_at_cards(std::vector<HealthReport>& reports) {
  std::error_code none;
  std::set<std::string> present;
  for (const auto& card : fs::directory_iterator(root_ / "sys/bus/pci/devices", none)) {
    const std::string address = card.path().filename().string(), kind = kind_of(card.path());
    if (kind.empty()) continue;
    present.insert(address);
    Device& known = devices_[address];
    if (known.name.empty()) known.name = kind + " " + address;
    known.gone = false;
    const double width = kernel_number(card.path() / "current_link_width");
    known.narrow = width > 0 && width < known.width ? known.narrow + 1 : 0;
    if (known.narrow == kNarrowLooks) {
      reports.push_back(
          {.kind = "degraded_link",
           .device = known.name,
           .text = fmt::format("{:.0f} lanes of PCIe, where it had {:.0f}", width, known.width)});
    }
    known.width = std::max(known.width, width);
  }
  for (auto& [address, known] : devices_) {
    if (present.contains(address) || known.gone) continue;
    known.gone = true;
    reports.push_back({.kind = "device_missing", .device = known.name, .text = "it is on the bus no more"});
  }
}

// Errors that the memory's own error correction could not correct, as counted by the kernel.
void DeviceSensor::look_at_memory(std::vector<HealthReport>& reports) {
  std::error_code none;
  for (const auto& controller : fs::directory_iterator(root_ / "sys/devices/system/edac/mc", none)) {
    if (!fs::exists(controller.path() / "ue_count", none)) continue;
    const std::string name = controller.path().filename().string();
    const double now = kernel_number(controller.path() / "ue_count"), before = errors_.contains(name)
                                                                                   ? errors_[name]
                                                                               : first_ ? now
                                                                                        : 0;
    errors_[name] = now;
    if (now <= before) continue;
    reports.push_back(
        {.kind = "device_degraded",
         .device = "memory " + name,
         .text =
             fmt::format("{:.0f} errors of the machine's memory that could not be corrected", now - before)});
  }
}

std::vector<HealthReport> DeviceSensor::look() {
  std::vector<HealthReport> reports;
  look_at_cards(reports);
  look_at_memory(reports);
  first_ = false;
  return reports;
}

}  // namespace longhaul::control
