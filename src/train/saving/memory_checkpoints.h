// MemoryCheckpoints: decides when a run's checkpoints in the memory of its nodes
// (checkpoint/memory_tier/memory_saver.h) are due, and accounts for what they cost. It is active where the
// process has a memory tier (LONGHAUL_MEMORY_TIER, which `longhaul launch` sets) and
// train.checkpoint_memory_every is not 0.
//
// train.checkpoint_memory_every = N saves every N steps, or at the first step after that which asks (with an
// outer loop, the end of a round), whatever it costs; a step waits for the previous save, so at most N steps
// are lost. With −1 it saves as often as one hundredth of the time allows, judged by the cost of past saves:
// how long training paused and, where training computes on the cores that saving uses, the processor time of
// saving. No save starts while another is still being written. All ranks make the same calls and agree on
// what is due.
#pragma once

#include <optional>

#include "checkpoint/memory_tier/memory_recovery.h"
#include "checkpoint/memory_tier/memory_saver.h"
#include "parallel/ranks.h"
#include "recipe/sections/train_options.h"

namespace longhaul::train {

// The number of steps between saves with which saving takes at most this share of the time.
int64_t steps_between(double cost_s, double step_s, double share = 0.01);

class MemoryCheckpoints {
 public:
  // A collective call. computing_threads: the threads that lose time to saving; 0 where a GPU computes.
  MemoryCheckpoints(storage::FileSystem& files, const parallel::Ranks& ranks,
                    const checkpoint::Writers& together, const std::optional<checkpoint::TierPlace>& place,
                    const recipe::TrainOptions& train, const std::string& run, int64_t generation,
                    int64_t computing_threads);

  bool on() const { return saver_.has_value(); }
  std::optional<storage::Checkpoint> newest(const checkpoint::Writers& together, checkpoint::Providers state,
                                            const storage::SavedMoment& at_least);
  // Called after a step that took so long. Returns true where no save is still being written and save() must
  // follow. `every_step`: it is called after each step.
  bool due(int64_t step, double step_seconds, bool every_step);
  void save(int64_t step, std::shared_ptr<const checkpoint::Snapshot> snapshot, storage::Manifest manifest);
  // Another rank has failed: all that this one holds of that step, for the next start
  // (checkpoint/memory_tier/survivors.h). Any thread; not collective.
  bool leave(int64_t step, const std::vector<checkpoint::StateEntry>& entries,
             storage::Manifest manifest) const;
  // of a save, reported once until a save has succeeded again. kFenced: another start owns the run
  std::optional<Error> failure();
  // what is in memory is not to be gone on from: the run goes back to an earlier step. A collective call
  void forget();
  // ends the run; on_disk: the last state is on the disk, so memory keeps nothing
  void end(bool on_disk);

 private:
  void fetch(std::optional<checkpoint::MemorySaveResult> result);

  storage::FileSystem& files_;
  const parallel::Ranks& ranks_;
  std::string run_;
  int64_t generation_ = 0;
  int64_t every_ = 0, threads_ = 0;
  checkpoint::TierNodes nodes_;
  std::unique_ptr<checkpoint::NodeDisk> disk_;  // of the node; its first rank's
  double cost_s_ = 0;                           // of the last save
  int64_t last_ = 0, next_ = 0, saves_ = 0;
  double pause_s_ = 0, seconds_ = 0;  // of all
  std::optional<Error> failure_;
  bool told_ = false;
  std::optional<checkpoint::MemorySaver> saver_;
};

}  // namespace longhaul::train
