// Accelerators as data sheets and measurements of others give them; every row names its sources. Dense peaks: never the figures of sparse
// matrices. Links are one way and of one accelerator. The only table of hardware: planner and footprint read it. Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::plan {

struct Accelerator {
  std::string name;                          // "h100"
  double bf16_flops = 0, fp8_flops = 0;      // FLOP/s; fp8 0: it has none
  double memory_bytes = 0, memory_rate = 0;  // bytes, bytes/s
  double link_rate = 0;                      // bytes/s that collectives reach to neighbours of the node
  double nic_rate = 0;                       // bytes/s that one reaches over the network
  int64_t node = 8;                          // accelerators that the fast link joins
  double thermal_watts = 0;
  std::string source;
};

const std::vector<Accelerator>& accelerators();
const Accelerator& accelerator(std::string_view name);  // kUsage with the list of names when there is none

}  // namespace longhaul::plan
