// How many cores the ranks of a machine share. Ranks that are processes may have more threads together than
// the machine has cores, and then the cores limit their speed. So a peak that one process measured is
// multiplied by the number of cores that all of them can use at once, not by the number of processes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "tensor/machine_profile.h"

namespace longhaul::run {

struct RankCores {
  int64_t machine = 0;  // a number that is the same on all ranks of one machine
  int64_t threads = 1;
  double quota = 0;  // cores that its control group may use at once; 0: as many as there are
  std::vector<int> cores;
};

// The number of threads, over all ranks, that have a core at the same time.
double threads_at_once(std::span<const RankCores> ranks);

// The peak that one process measured with its own threads, and the factor by which all processes together exceed it.
struct MeasuredPeak {
  MachineProfile profile;
  double times = 1;
};

// Where no measurement is stored, rank 0 alone measures, because ranks that measure at the same time would disturb each other. Each rank has its own GPU. A collective call;
// null: one process.
MeasuredPeak measured_peak(comm::Communicator* processes, at::Device device);

}  // namespace longhaul::run
