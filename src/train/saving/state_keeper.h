// StateKeeper: leaves this rank's state after the last whole step in its node's memory when the run ends
// because another rank failed (checkpoint/memory_tier/survivors.h). The node's daemon asks for it by a signal
// (base/process/signals.h), and a separate thread answers, whatever the training thread is doing: forward and
// backward passes change nothing of that state. Between `changes` and `whole` an update is in progress and
// there is nothing to leave; a request then waits up to a second for the update to end. A process that has
// been asked ends afterwards, with 75, or with 69 through the trainer.
//
//   keeper.whole({step, facts, position});  …passes…  keeper.changes();  …update…  keeper.whole({…});
//   catch (communication error)  keeper.leave();      // another rank is gone, and nobody has asked yet
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/threads/worker.h"

namespace longhaul::train {

struct WholeState {
  int64_t step = 0;
  nlohmann::json facts, data_position;  // copies, since the trainer goes on
};

class StateKeeper {
 public:
  // `write` is called at most once, from either thread, and may throw.
  explicit StateKeeper(std::function<void(const WholeState&)> write);
  ~StateKeeper();
  StateKeeper(const StateKeeper&) = delete;
  StateKeeper& operator=(const StateKeeper&) = delete;

  void whole(WholeState state);
  void changes();  // does not return in a process that is about to end
  void leave();    // leaves the state if it is whole now, and nothing otherwise

 private:
  void answer();
  bool write_once();  // returns whether the state was written, now or earlier

  std::function<void(const WholeState&)> write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<WholeState> whole_;
  bool asked_ = false, written_ = false, over_ = false;
  Worker worker_{"state keeper"};  // last: its thread uses everything above
};

}  // namespace longhaul::train
