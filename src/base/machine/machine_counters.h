// The kernel's counters for the whole machine, whoever uses it: processor time, network bytes and congestion
// marks, and the use of memory and disk. A counter that does not exist or cannot be read has no value, and is
// never zero.
//
//   const MachineCounters before = read_machine_counters();   // a second later:
//   // rates are differences; a counter may restart in between
//   const MachineCounters after = read_machine_counters();
//
// Sources: /proc/stat, /proc/meminfo, /proc/net/dev, statvfs; for RDMA devices
// /sys/class/infiniband/*/ports/*/{counters,hw_counters}; and the counters of network drivers (ethtool). See
// docs/sources/reliability.md §7.2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/machine/network_statistics.h"

namespace longhaul {

// DeviceCounters: by name of the interface or port; only those that have the counter.
using DeviceCounters = std::map<std::string, uint64_t>;

struct MachineCounters {
  int64_t at_ns = 0;  // monotonic_ns()
  struct Processors {
    uint64_t worked = 0, all = 0;  // in kernel ticks; worked: not idle, so that waiting for disks counts
  };
  std::optional<Processors> processors;
  std::optional<double> memory_share;  // 0 to 1: the share of the memory for programs that is not available
  std::optional<double> disk_share;    // 0 to 1: used / (used + free for users), as df computes it
  DeviceCounters network_sent;         // bytes by interface, without the loopback
  DeviceCounters rdma_sent;            // bytes by port
  // RoCE packets that came with a congestion mark (np_ecn_marked_roce_packets)
  DeviceCounters ecn_marked;
  DeviceCounters cnp_handled;  // congestion notifications that came (rp_cnp_handled)
  // Priority-flow-control frames by interface, or pauses of the whole link (network_statistics.h).
  DeviceCounters pauses_sent;
};

struct MachineFiles {
  std::filesystem::path proc = "/proc", sys = "/sys", disk = "/";
  std::function<NetworkStatistics(const std::string& interface)> statistics_of = network_statistics;
};

// Processor time of a process in kernel ticks; none: there is no such process.
std::optional<uint64_t> processor_ticks_of(int64_t process, const std::filesystem::path& proc = "/proc");

MachineCounters read_machine_counters(const MachineFiles& files = {});

// Counters for the given processes only, for nodes that share a machine: the processor time of the processes
// against that of all processors, and their private memory (RssAnon) against the machine's. The other
// counters have no value. Processes that have ended are not counted, so sums can fall.
MachineCounters read_process_counters(std::span<const int64_t> processes, const MachineFiles& files = {});

}  // namespace longhaul
