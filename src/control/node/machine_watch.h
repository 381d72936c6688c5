// MachineWatch: the thread of a node daemon that watches the health of its machine (sensors.h) as long as the
// daemon lives. It reads the kernel's log twice a second; network links, PCI cards, the run's disk and the
// ranks' logs every five seconds; GPUs every thirty. The daemon's loop fetches the reports.
//
//   MachineWatch watch({.node = "node-0", .run_folder = run});
//   // processes of the ranks, as often as wanted
//   watch.ranks_run({4711, 4712}, host.logs());
//   for (const HealthReport& report : watch.reports()) send(report);
//
// What a machine does not have, or does not let this user read, is logged once and is no fault. A sensor that
// fails is logged once and left out. Training never waits for a sensor, and the end of the daemon does not
// either.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/leavable_worker.h"
#include "control/sensors/sensors.h"
#include "control/wire/messages.h"

namespace longhaul::control {

struct MachineWatchOptions {
  std::string node;
  std::filesystem::path run_folder;  // the folder whose disk is watched
  MachineRoot root{};
  // False: other nodes share the machine, so only reports about the run's disk and logs count for this node.
  bool whole_machine = true;
};

class MachineWatch {
 public:
  explicit MachineWatch(MachineWatchOptions options);
  ~MachineWatch();
  void ranks_run(std::vector<int64_t> processes, std::vector<RankLog> logs);
  std::vector<HealthReport> reports();  // those that have come since the last call

 private:
  struct State;
  std::shared_ptr<State> state_;
  LeavableWorker worker_{"machine"};
};

}  // namespace longhaul::control
