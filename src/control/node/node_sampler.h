// NodeSampler: the thread of a node daemon that writes samples of its machine into the run's folder,
// RUN/samples/<node>.ring, at each full second while the node's ranks run (detect/samples/sample_ring.h).
// Spares, and nodes between two starts, record nothing, because an idle machine is no peer of machines that
// work.
//
//   NodeSampler sampler({.folder = run / "samples", .owner = {…}});
//   sampler.ranks_run({4711, 4712});  // processes of the ranks, from the daemon's loop, as often as wanted
//   sampler.ranks_run({});            // no ranks: the ring records it, and its file is closed
//
// A folder that cannot be written is warned of once and tried again every minute: training does not wait for
// samples.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/leavable_worker.h"
#include "detect/samples/sample_ring.h"

namespace longhaul::control {

struct NodeSamplerOptions {
  std::filesystem::path folder;  // created when it is needed
  detect::RingOwner owner;       // ranks_alone: the samples cover the processes of the ranks only
  MachineFiles files;
};

class NodeSampler {
 public:
  explicit NodeSampler(NodeSamplerOptions options);
  ~NodeSampler();
  void ranks_run(std::vector<int64_t> processes);
  // The last sample by the names of its metrics, those that have a value; empty while no ranks run.
  std::map<std::string, double> last() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
  LeavableWorker worker_{"samples"};
};

}  // namespace longhaul::control
