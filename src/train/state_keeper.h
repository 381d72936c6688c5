// StateKeeper: leaves this rank's state of the last whole step in its node's memory when the run is ended because another rank failed
// (checkpoint/memory_tier/survivors.h). The daemon asks by a signal (base/process/signals.h), and a thread of its own answers, whatever the thread that trains is at: passes
// change nothing of what is left. Between `changes` and `whole` an update is under way and there is nothing to leave; who is asked then waits a second
// for its end. A process that has been asked ends: 75, or 69 through the trainer.
//
//   keeper.whole({step, facts, position});  …passes…  keeper.changes();  …update…  keeper.whole({…});
//   catch (communication error)  keeper.leave();      // another rank is gone, nobody has asked yet
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
  nlohmann::json facts, data_position;  // as they were then: the trainer goes on
};

class StateKeeper {
 public:
  // `write` is called once at most, from either thread, and may throw.
  explicit StateKeeper(std::function<void(const WholeState&)> write);
  ~StateKeeper();
  StateKeeper(const StateKeeper&) = delete;
  StateKeeper& operator=(const StateKeeper&) = delete;

  void whole(WholeState state);
  void changes();  // never returns to a process that is about to end
  void leave();    // what is whole now; nothing otherwise

 private:
  void answer();
  bool write_once();  // → whether something was written, now or before

  std::function<void(const WholeState&)> write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<WholeState> whole_;
  bool asked_ = false, written_ = false, over_ = false;
  Worker worker_{"state keeper"};  // last: its thread uses everything above
};

}  // namespace longhaul::train
