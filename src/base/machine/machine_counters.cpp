#include "base/machine/machine_counters.h"

#include <sstream>
#include <string_view>

#include "base/clock.h"
#include "base/machine/kernel_file.h"
#include "base/text/number.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

std::optional<uint64_t> counter_in(std::string_view text) { return leading_number<uint64_t>(text); }

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; the time of guests is included in
// user and nice.
std::optional<MachineCounters::Processors> processors_in(const std::string& stat) {
  constexpr size_t kIdle = 3, kWithoutGuests = 8;
  std::istringstream line(stat.substr(0, stat.find('\n')));
  std::string name;
  if (!(line >> name) || name != "cpu") return std::nullopt;
  MachineCounters::Processors found;
  uint64_t ticks = 0;
  size_t field = 0;
  for (; field < kWithoutGuests && line >> ticks; ++field) {
    found.all += ticks;
    if (field != kIdle) found.worked += ticks;
  }
  if (field <= kIdle) return std::nullopt;
  return found;
}

std::optional<double> memory_share_in(const fs::path& meminfo) {
  const auto fields = kernel_fields(meminfo);
  const int64_t total = bytes_named(fields, "MemTotal"), available = bytes_named(fields, "MemAvailable");
  if (total <= 0 || available <= 0 || available > total) return std::nullopt;
  return 1 - static_cast<double>(available) / static_cast<double>(total);
}

// utime + stime of "number (name) state …": fields 14 and 15; the name may hold blanks and brackets.
std::optional<uint64_t> ticks_in(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  uint64_t user = 0, system = 0;
  if (!(fields >> user >> system)) return std::nullopt;
  return user + system;
}

// "  eth0: received-bytes …seven more… sent-bytes …"; there may be no blank after the colon.
DeviceCounters network_sent_in(const std::string& net_dev) {
  constexpr int kSent = 8;
  DeviceCounters sent;
  std::istringstream lines(net_dev);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':'), begin = line.find_first_not_of(' ');
    if (colon == std::string::npos) continue;  // headings
    const std::string name = line.substr(begin, colon - begin);
    std::istringstream fields(line.substr(colon + 1));
    uint64_t value = 0;
    int field = 0;
    while (field <= kSent && fields >> value) ++field;
    if (name != "lo" && field > kSent) sent[name] = value;
  }
  return sent;
}

std::optional<double> disk_share_of(const fs::path& disk) {
  std::error_code problem;
  const fs::space_info space = fs::space(disk, problem);
  if (problem || space.capacity < space.free) return std::nullopt;
  const auto used = static_cast<double>(space.capacity - space.free),
             available = static_cast<double>(space.available);
  if (used + available <= 0) return std::nullopt;
  return used / (used + available);
}

void read_rdma(const fs::path& sys, MachineCounters& into) {
  constexpr uint64_t kOctetsOfData = 4;  // port_xmit_data counts in units of four octets
  std::error_code none;
  for (const auto& device : fs::directory_iterator(sys / "class/infiniband", none)) {
    std::error_code no_ports;
    for (const auto& port : fs::directory_iterator(device.path() / "ports", no_ports)) {
      const std::string name = device.path().filename().string() + "/" + port.path().filename().string();
      const auto take = [&](const char* file, DeviceCounters& counters, uint64_t unit) {
        if (const auto value = counter_in(kernel_line(port.path() / file))) counters[name] = *value * unit;
      };
      take("counters/port_xmit_data", into.rdma_sent, kOctetsOfData);
      take("hw_counters/np_ecn_marked_roce_packets", into.ecn_marked, 1);
      take("hw_counters/rp_cnp_handled", into.cnp_handled, 1);
    }
  }
}

// Interfaces with a device: virtual ones pass on what these send.
void read_pauses(const MachineFiles& files, MachineCounters& into) {
  std::error_code none;
  for (const auto& interface : fs::directory_iterator(files.sys / "class/net", none)) {
    std::error_code no_device;
    if (!fs::exists(interface.path() / "device", no_device)) continue;
    const std::string name = interface.path().filename().string();
    if (const auto frames = pause_frames_sent(files.statistics_of(name))) into.pauses_sent[name] = *frames;
  }
}

}  // namespace

std::optional<uint64_t> processor_ticks_of(int64_t process, const fs::path& proc) {
  return ticks_in(kernel_text(proc / std::to_string(process) / "stat"));
}

MachineCounters read_machine_counters(const MachineFiles& files) {
  MachineCounters counters{.at_ns = monotonic_ns()};
  counters.processors = processors_in(kernel_text(files.proc / "stat", 512));
  counters.memory_share = memory_share_in(files.proc / "meminfo");
  counters.network_sent = network_sent_in(kernel_text(files.proc / "net/dev"));
  counters.disk_share = disk_share_of(files.disk);
  read_rdma(files.sys, counters);
  read_pauses(files, counters);
  return counters;
}

MachineCounters read_process_counters(std::span<const int64_t> processes, const MachineFiles& files) {
  MachineCounters counters{.at_ns = monotonic_ns()};
  auto processors = processors_in(kernel_text(files.proc / "stat", 512));
  const int64_t total = bytes_named(kernel_fields(files.proc / "meminfo"), "MemTotal");
  uint64_t ticks = 0;
  int64_t own = 0;
  bool any = false;
  for (const int64_t process : processes) {
    const fs::path folder = files.proc / std::to_string(process);
    const auto its = processor_ticks_of(process, files.proc);
    if (!its) continue;
    ticks += *its, any = true;
    own += bytes_named(kernel_fields(folder / "status"), "RssAnon");
  }
  if (!any) return counters;
  if (processors) processors->worked = ticks, counters.processors = processors;
  if (total > 0 && own <= total)
    counters.memory_share = static_cast<double>(own) / static_cast<double>(total);
  return counters;
}

}  // namespace longhaul
