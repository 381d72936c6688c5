// NodeSampler: the thread of a node daemon that writes its machine's samples into the run's folder, RUN/samples/<node>.ring, at each full second
// while the node's ranks run (detect/sample_ring.h). Spares, and nodes between two starts, measure nothing: an idle machine is no peer of those that work.
//
//   NodeSampler sampler({.folder = run / "samples", .owner = {…}});
//   sampler.ranks_run({4711, 4712});  // their processes, from the daemon's loop, as often as it likes
//   sampler.ranks_run({});            // none: the ring says so, and its file is closed
//
// A folder that cannot be written is warned of once and tried again each minute: training does not wait for samples.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "base/leavable_worker.h"
#include "detect/sample_ring.h"

namespace longhaul::control {

struct NodeSamplerOptions {
  std::filesystem::path folder;  // made when it is needed
  detect::RingOwner owner;       // ranks_alone: samples are of their processes
  MachineFiles files;
};

class NodeSampler {
 public:
  explicit NodeSampler(NodeSamplerOptions options);
  ~NodeSampler();
  void ranks_run(std::vector<int64_t> processes);

 private:
  struct State;
  std::shared_ptr<State> state_;
  LeavableWorker worker_{"samples"};
};

}  // namespace longhaul::control
