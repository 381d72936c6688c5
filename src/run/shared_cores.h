// Who computes on the cores of a machine: ranks that are processes may have more threads together than there are cores, and what they reach is then that
// of the cores. So a peak that one process measured is multiplied by what all of them can have at once, not by their number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "tensor/machine_profile.h"

namespace longhaul::run {

struct RankCores {
  int64_t machine = 0;  // the same number on all ranks of one
  int64_t threads = 1;
  double quota = 0;  // cores that its control group may use at once; 0: as many as there are
  std::vector<int> cores;
};

// Threads of all ranks that have a core at once.
double threads_at_once(std::span<const RankCores> ranks);

// What a process has measured with its own threads, and how many times that all of them reach together.
struct MeasuredPeak {
  MachineProfile profile;
  double times = 1;
};

// Rank 0 measures where nothing is kept, alone: ranks that measured at the same time would measure each other. A GPU is one rank's own. A collective call;
// null: one process.
MeasuredPeak measured_peak(comm::Communicator* processes, at::Device device);

}  // namespace longhaul::run
