// MinderWatch: Minder (src/detect) over the samples that the run's own nodes keep (RUN/samples), for a driver whose loop must not wait: reading and
// looking are a thread's of their own. A machine that stays apart from its like for minutes is a suspicion, as a straggler is.
//
//   MinderWatch minder({.run_folder = run, .models = detect::untrained_models(), .variant = detect::Variant::kMean});
//   minder.look(peers);                                         // now and then: who is a node of this generation, and whose like
//   for (const MinderAlert& alert : minder.alerts()) …          // what came of earlier looks
//
// What cannot be judged (too few machines of a kind, no samples yet) is no fault; its reason is told once.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/leavable_worker.h"
#include "detect/detector.h"

namespace longhaul::control {

struct MinderOptions {
  std::filesystem::path run_folder;
  detect::Models models;
  detect::Variant variant = detect::Variant::kMinder;
};

// A node that trains now.
struct MinderPeer {
  std::string node, host;
  std::string likes;  // nodes that do the same work have the same: "stages 0, 1"
};

struct MinderAlert {
  std::string node, metric, text;
};

class MinderWatch {
 public:
  explicit MinderWatch(MinderOptions options);
  ~MinderWatch();
  void look(std::vector<MinderPeer> peers);  // nothing happens while an earlier look goes on
  std::vector<MinderAlert> alerts();         // since the last call
  bool idle() const;                         // no look goes on

 private:
  struct State;
  std::shared_ptr<State> state_;
  LeavableWorker worker_{"minder"};
};

}  // namespace longhaul::control
