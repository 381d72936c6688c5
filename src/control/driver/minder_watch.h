// MinderWatch runs Minder (src/detect) over the samples that the run's own nodes record (RUN/samples). It is
// made for a driver whose loop must not wait: a thread of its own reads and compares the samples. A machine
// that differs from its peers for minutes is suspected, as a straggler is.
//
//   MinderWatch minder({.run_folder = run, .models = detect::untrained_models(),
//       .variant = detect::Variant::kMean});
//   minder.look(peers);                                         // now and then: the nodes of this generation
//   for (const MinderAlert& alert : minder.alerts()) …          // results of earlier looks
//
// It is no fault where nothing can be judged (too few machines of a kind, no samples yet); the reason is
// logged once.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/leavable_worker.h"
#include "detect/minder/detector.h"

namespace longhaul::control {

struct MinderOptions {
  std::filesystem::path run_folder;
  detect::Models models;
  detect::Variant variant = detect::Variant::kMinder;
};

// MinderPeer: a node that trains now.
struct MinderPeer {
  std::string node, host;
  std::string likes;  // equal for nodes that do the same work and are compared with each other: "stages 0, 1"
};

struct MinderAlert {
  std::string node, metric, text;
};

class MinderWatch {
 public:
  explicit MinderWatch(MinderOptions options);
  ~MinderWatch();
  void look(std::vector<MinderPeer> peers);  // does nothing while an earlier look goes on
  std::vector<MinderAlert> alerts();         // those that have come since the last call
  bool idle() const;                         // no look is under way

 private:
  struct State;
  std::shared_ptr<State> state_;
  LeavableWorker worker_{"minder"};
};

}  // namespace longhaul::control
