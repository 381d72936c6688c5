// Trainer: the training loop with steps, evaluations, checkpoints, signals, the numeric guard and the events
// that report them. It knows no model. Its parts stand in trainer.cpp (the loop), rollback.cpp, leaving.cpp
// (state for other starts) and batch_ramp.cpp. A process may hold several trainers in several threads; they
// share nothing but signals and the logger.
//
// A run ends when all steps are done, at train.until_time, after a stop request (RunControl), after too many
// skipped steps in a row or a single one without train.skip_nonfinite (Error 67), after spikes that rollbacks
// do not cure (Error 67; spike_ladder.h), when a machine is found to compute wrongly (Error 71;
// corruption.h), or when a later start of the same run exists (Error 76; then nothing more is written). The
// final state is saved first; the full evaluation and the sample follow, so interrupting them loses no
// training. A start that finds all steps done but these two missing does them. `Outcome::reason` says why the
// run ended.
// On several ranks each rank has a trainer, and all are called alike. They decide together when to stop and
// what to save: a request to one rank is carried out by all at the same step, or, with an outer loop, between
// two rounds, because within a round no worker knows about the others. Evaluations and checkpoints hold the
// weights that the workers last agreed on; the loss of a step is that of its own worker. The ranks look for
// the checkpoint to continue from together, and each rank writes its own events.
// A full disk ends no run: failed saves raise alarms, and the next save tries again. The last save is
// repeated a few times; if it still fails, `Outcome::saved` is false and an alarm says from which state a
// start continues.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/clock.h"
#include "base/machine/other_programs.h"
#include "checkpoint/disk/save.h"
#include "checkpoint/load.h"
#include "checkpoint/optimizer_state.h"
#include "checkpoint/outer_state.h"
#include "checkpoint/starting_point.h"
#include "observe/events/event_log.h"
#include "observe/trace/trace_file.h"
#include "optim/schedule.h"
#include "recipe/load.h"
#include "storage/checkpoint_files.h"
#include "train/averaged_weights.h"
#include "train/batch_ramp.h"
#include "train/guards/corruption.h"
#include "train/guards/spike_ladder.h"
#include "train/machine_use.h"
#include "train/peak_shares.h"
#include "train/run_control.h"
#include "train/saving/memory_checkpoints.h"
#include "train/saving/save_interval.h"
#include "train/saving/state_keeper.h"
#include "train/step.h"
#include "train/step_arena.h"
#include "train/task.h"

namespace longhaul::train {

struct TrainerOptions {
  recipe::LoadedRecipe recipe;
  std::filesystem::path run_folder;
  nlohmann::json environment = nlohmann::json::object();  // for checkpoints
  FlopsOfToken flops_per_token{};
  // in sequences of so many tokens, where optim.stages changes them; empty: they are as above
  std::function<FlopsOfToken(int64_t sequence)> flops_of_sequence{};
  double peak_flops_per_second = 0;  // measured; 0: no MFU
  // what they take of the run's cores; null: not looked at
  std::shared_ptr<OtherPrograms> others{};
  // called after the first step of this process, on all ranks
  std::function<void(int64_t step)> on_first_step{};
  // receives the steps that observe.trace_every selects; null: none
  observe::TraceWriter* trace = nullptr;
  optim::OuterLoop* outer = nullptr;  // null: there is one worker
  // the memory tier of this rank's node; none: checkpoints go to the disk only
  std::optional<checkpoint::TierPlace> tier{};
  // false: a probe, whose steps are not the run's; it writes no checkpoint, to no place
  bool saves = true;
  // the process holds this rank only, so its daemon may ask it to leave its state in the tier
  // (state_keeper.h)
  bool leaves_state = false;
};

struct Outcome {
  std::string reason = "finished";  // or "signal", "until_time"
  int64_t step = 0;                 // last step done
  int signal = 0;
  bool saved = true;  // the state at `step` is on the disk
};

struct Resumed {
  int64_t step = 0;                       // the step to continue from; 0: from the start
  std::optional<recipe::Recipe> earlier;  // the recipe of the steps so far
};

class Trainer {
 public:
  Trainer(Task& task, optim::Optimizer& optimizer, parallel::Ranks& ranks, observe::EventWriter& events,
          storage::FileSystem& files, RunControl& control, TrainerOptions options);

  // Continues from the newest valid checkpoint of the run folder, if there is one. Throws kUsage or kData
  // where it belongs to another run or other data. Where all checkpoints are damaged it throws kCheckpoint
  // and starts nothing.
  Resumed resume();
  // Takes the weights of a new run from `from` instead of random ones. A collective call.
  void begin_with(const checkpoint::StartingPoint& from);
  Outcome run();
  int64_t step() const { return step_; }
  checkpoint::Providers state() const { return state_; }  // everything that a checkpoint of the run holds

 private:
  struct Counters final : checkpoint::StateProvider {
    int64_t tokens = 0, skipped = 0, skipped_in_a_row = 0;
    nlohmann::json facts() override;
    void restore(const checkpoint::SavedFacts& facts) override;
  };
  void next_step();
  StepOptions options_of(int64_t step);
  void step_ended(StepResult& result, const Stopwatch& watch);
  void save_and_evaluate();
  int64_t device_bytes() const;
  void report(const StepResult& result, double milliseconds);
  void meet_workers(double loss, double seconds);
  bool between_rounds() const { return options_.outer == nullptr || options_.outer->between_rounds(); }
  void refuse_bad(const StepResult& result) const;
  void take_skips();
  void load(const storage::Checkpoint& checkpoint, checkpoint::OptimizerStates states);
  void roll_back();
  std::string go_back_to(int64_t spike);
  void set_growth();
  void take_noise(StepResult& result);
  void tell_growth();
  double learning_rate(int64_t step) const { return schedule_.learning_rate(step) * ladder_.rate(); }
  std::filesystem::path checkpoints() const { return options_.run_folder / "checkpoints"; }
  bool stopping();
  void evaluate(bool whole);
  void judge();
  struct SaveTo {
    bool disk = false, memory = false;
  };
  void save(SaveTo to);
  void tell_of_memory();
  void begin_keeping();
  void keep();  // what a survivor leaves is the state as it is now
  void on_save_ended(const checkpoint::SaveResult& result);
  void save_at_the_end();
  storage::Manifest manifest() const;
  const recipe::TrainOptions& train() const { return options_.recipe.recipe.train; }

  Task& task_;
  optim::Optimizer& optimizer_;
  observe::EventWriter& events_;
  storage::FileSystem& files_;
  RunControl& control_;
  TrainerOptions options_;
  optim::TrainSchedule schedule_;
  parallel::Ranks& ranks_;
  checkpoint::Writers together_;  // what is found on the disk by one rank and told to all
  Counters counters_;
  SpikeLadder ladder_;
  BatchRamp ramp_;
  CorruptionChecks corruption_;
  checkpoint::OptimizerState optimizer_state_;
  // of an outer loop, in the place of the one above; null: none
  std::unique_ptr<checkpoint::OuterState> outer_state_;
  AveragedWeights average_;
  std::vector<checkpoint::StateProvider*> state_;
  int64_t step_ = 0;
  int64_t saved_step_ = -1;  // newest on the disk; -1: none
  double step_seconds_ = 0;  // of the last one
  int64_t parent_step_ = -1;
  bool judged_ = false;  // an earlier process has evaluated the state at the end
  double until_s_ = 0;
  Outcome outcome_;
  MachineUse use_;
  std::optional<StepArena> arena_;  // of train.arena
  PeakShares shares_{options_.flops_per_token, options_.peak_flops_per_second};
  std::optional<SaveInterval> interval_;  // of rank 0, where checkpoints on the disk have no fixed one
  checkpoint::CopyOut copies_;
  MemoryCheckpoints memory_;
  std::optional<StateKeeper> keeper_;  // where the state of this rank can be left in memory
  checkpoint::Saver saver_;            // last: what it calls at the end uses everything above
};

}  // namespace longhaul::train
