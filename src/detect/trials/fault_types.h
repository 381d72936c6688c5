// The fault types of Minder's Table 1 (seven months of production): how often each occurs, and in which
// groups of metrics an instance shows. For the paper's 150 test instances four shares are published (ECC,
// CUDA, GPU execution, PCIe). The other shares of that mix, the probabilities of showing and all magnitudes
// are this generator's own choice (docs/guides/detect.md), because the paper's cells are not public.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace longhaul::detect {

struct FaultType {
  std::string_view name, title;
  double share = 0;                              // in production, percent
  double evaluation_share = 0;                   // among the paper's test instances, percent
  double pfc = 0, cpu = 0, gpu = 0, nvlink = 0;  // probability that an instance shows in that group
  bool spreads = false;                          // several machines of a group may fail together
};

std::span<const FaultType> fault_types();
const FaultType& fault_named(std::string_view name);  // Error (64)

}  // namespace longhaul::detect
