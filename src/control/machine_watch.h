// MachineWatch: the thread of a node daemon that looks at its machine (sensors.h) as long as the daemon lives: the kernel's log twice a second,
// links, cards and the run's disk each five, GPUs each thirty. What it finds is fetched when the daemon's loop comes by.
//
//   MachineWatch watch({.node = "node-0", .run_folder = run});
//   watch.ranks_run({4711, 4712});                                  // processes of the ranks, as often as it likes
//   for (const HealthReport& report : watch.reports()) send(report);
//
// What a machine does not have, or keeps from this user, is said once and no fault. A sensor that fails is said once and left out: training never
// waits for it, nor does the daemon's end.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/leavable_worker.h"
#include "control/messages.h"
#include "control/sensors.h"

namespace longhaul::control {

struct MachineWatchOptions {
  std::string node;
  std::filesystem::path run_folder;  // whose disk is looked at
  MachineRoot root{};
  bool whole_machine = true;  // false: other nodes are on it too; what happens to it says nothing of this one, the run's disk excepted
};

class MachineWatch {
 public:
  explicit MachineWatch(MachineWatchOptions options);
  ~MachineWatch();
  void ranks_run(std::vector<int64_t> processes);
  std::vector<HealthReport> reports();  // those that have come since the last call

 private:
  struct State;
  std::shared_ptr<State> state_;
  LeavableWorker worker_{"machine"};
};

}  // namespace longhaul::control
