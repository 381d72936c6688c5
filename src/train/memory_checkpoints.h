// MemoryCheckpoints: a run's checkpoints in the memory of its nodes (checkpoint/memory_tier/memory_saver.h): when they are due, and what they cost. On
// where the process has a memory tier (LONGHAUL_MEMORY_TIER, as `longhaul launch` sets it) and train.checkpoint_memory_every is not 0.
//
// train.checkpoint_memory_every = N: every N steps, or behind N at the first step that is asked for (an outer loop's: a round's), whatever that costs; a step waits for the save before it, so that no more than N steps
// are lost. −1: as often as one hundredth of the time allows, from what saves have cost so far: how long training stood still and, where it
// computes on the cores that saves take, their processor time. Never while one is still being written. All ranks make the same calls; they
// agree on what is due.
#pragma once

#include <optional>

#include "checkpoint/memory_tier/memory_recovery.h"
#include "checkpoint/memory_tier/memory_saver.h"
#include "parallel/ranks.h"
#include "recipe/sections/train_options.h"

namespace longhaul::train {

// Steps between saves that take at most this share of the time.
int64_t steps_between(double cost_s, double step_s, double share = 0.01);

class MemoryCheckpoints {
 public:
  // A collective call. computing_threads: that saves take time from; 0: none, it is a GPU that computes.
  MemoryCheckpoints(storage::FileSystem& files, const parallel::Ranks& ranks, const checkpoint::Writers& together,
                    const std::optional<checkpoint::TierPlace>& place, const recipe::TrainOptions& train, const std::string& run,
                    int64_t generation, int64_t computing_threads);

  bool on() const { return saver_.has_value(); }
  std::optional<storage::Checkpoint> newest(const checkpoint::Writers& together, checkpoint::Providers state,
                                            const storage::SavedMoment& at_least);
  // Behind a step that took so long. True: nothing is being written any more, and save() follows. `every_step`: it is asked behind each step.
  bool due(int64_t step, double step_seconds, bool every_step);
  void save(int64_t step, std::shared_ptr<const checkpoint::Snapshot> snapshot, storage::Manifest manifest);
  // Another rank has failed: all that this one holds of that step, for the next start (checkpoint/memory_tier/survivors.h). Any thread; not collective.
  bool leave(int64_t step, const std::vector<checkpoint::StateEntry>& entries, storage::Manifest manifest) const;
  std::optional<Error> failure();  // of a save, told once until one has worked again. kFenced: the run is someone else's
  void forget();                   // what is in memory is not to be gone on from: the run goes back to an earlier step. A collective call
  void end(bool on_disk);          // of the run; its last state is on the disk: nothing is left in memory

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
