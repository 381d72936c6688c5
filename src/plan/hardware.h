// Accelerators, with the values of data sheets and of measurements by others; every row names its sources.
// Peaks are dense, never those of sparse matrices. Link rates are one way and per accelerator. It is the only
// table of hardware; planner and footprint read it. Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::plan {

struct Accelerator {
  std::string name;                          // "h100"
  double bf16_flops = 0, fp8_flops = 0;      // FLOP/s; fp8 0: not available
  double memory_bytes = 0, memory_rate = 0;  // bytes, bytes/s
  // bytes/s that collective calls reach with neighbours in the node
  double link_rate = 0;
  double nic_rate = 0;  // bytes/s of one accelerator over the network
  int64_t node = 8;     // number of accelerators that the fast link connects
  double thermal_watts = 0;
  std::string source;
};

const std::vector<Accelerator>& accelerators();
const Accelerator& accelerator(std::string_view name);  // kUsage with the list of names when it is unknown

}  // namespace longhaul::plan
