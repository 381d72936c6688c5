// How many cores the ranks of a machine share. Ranks that are processes may have more threads together than
// the machine has cores, and then the cores limit their speed. So a peak that one process measured is
// multiplied by the number of cores that all of them can use at once, not by the number of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/machine/other_programs.h"
#include "comm/communicator.h"
#include "tensor/machine_profile.h"

namespace longhaul::run {

struct RankCores {
  int64_t machine = 0;  // a number that is the same on all ranks of one machine
  int64_t threads = 1;
  double quota = 0;  // cores that its control group may use at once; 0: as many as there are
  std::vector<int> cores;
  int64_t process = 0, process_space = 0;  // its number, and what makes such numbers comparable
  // the same on all ranks that share processors, in other containers too
  int64_t boot = 0;
};

// The number of threads, over all ranks, that have a core at the same time.
double threads_at_once(std::span<const RankCores> ranks);

// The peak that one process measured with its own threads, and the factor by which all processes together
// exceed it.
struct MeasuredPeak {
  MachineProfile profile;
  double times = 1;
  // The run's processes on the first rank's machine, and its cores. None: a GPU computes, or processes there
  // do not see each other's numbers.
  std::optional<OtherPrograms::Run> here{};
};

std::optional<OtherPrograms::Run> run_on_first_machine(std::span<const RankCores> ranks);

// Where no measurement is stored, rank 0 alone measures, because ranks that measure at the same time would
// disturb each other. Each rank has its own GPU. A collective call; null: one process.
MeasuredPeak measured_peak(comm::Communicator* processes, at::Device device);

}  // namespace longhaul::run
