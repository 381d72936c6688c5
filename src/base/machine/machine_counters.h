// What this machine's kernel counts of the whole machine, whoever uses it: time of its processors, bytes and marks of its network, and how full
// memory and disk are. What is not there or cannot be read has no value, never zero.
//
//   const MachineCounters before = read_machine_counters();   // a second later:
//   const MachineCounters after = read_machine_counters();    // rates are differences; a counter may have begun again in between
//
// From /proc/stat, /proc/meminfo, /proc/net/dev, statvfs and, of RDMA devices, /sys/class/infiniband/*/ports/*/{counters,hw_counters}, and what
// drivers of interfaces count (ethtool).
// Source: docs/sources/reliability.md §7.2.
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

// Of each interface or port by name; only those that have the counter.
using DeviceCounters = std::map<std::string, uint64_t>;

struct MachineCounters {
  int64_t at_ns = 0;  // monotonic_ns()
  struct Processors {
    uint64_t worked = 0, all = 0;  // in ticks of the kernel; worked: not idle, so waiting for disks counts
  };
  std::optional<Processors> processors;
  std::optional<double> memory_share;  // 0 to 1: of what programs could have had, what is not available
  std::optional<double> disk_share;    // 0 to 1: used, of what is used or free for users (as df says)
  DeviceCounters network_sent;         // bytes by interface, without the loopback
  DeviceCounters rdma_sent;            // bytes by port
  DeviceCounters ecn_marked;           // RoCE packets that came with a congestion mark (np_ecn_marked_roce_packets)
  DeviceCounters cnp_handled;          // congestion notifications that came (rp_cnp_handled)
  DeviceCounters pauses_sent;          // priority-flow-control frames by interface, or pauses of the whole link (network_statistics.h)
};

struct MachineFiles {
  std::filesystem::path proc = "/proc", sys = "/sys", disk = "/";
  std::function<NetworkStatistics(const std::string& interface)> statistics_of = network_statistics;
};

MachineCounters read_machine_counters(const MachineFiles& files = {});

// Of these processes alone, where several stand for machines of their own: their time against that of all processors, and the memory that is theirs
// alone (RssAnon) against the machine's. The rest has no value. A process that has ended counts no more: sums can fall.
MachineCounters read_process_counters(std::span<const int64_t> processes, const MachineFiles& files = {});

}  // namespace longhaul
