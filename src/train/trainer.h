// Trainer: the loop. Steps, evaluations, checkpoints, signals, the numeric guard and the events that tell of them; it knows no model.
// A process may hold several trainers in several threads: signals and the logger are the only things they share.
//
// What ends a run: all steps done, train.until_time, a stop request (RunControl), too many skipped steps in a row, or
// a single one without train.skip_nonfinite (Error 67), spikes that rollbacks do not cure (Error 67; spike_ladder.h), a machine found to compute
// wrongly (Error 71; corruption.h), a later start of the same run (Error 76: nothing more is written). The state at
// the end is saved first, and the whole evaluation and the sample come after it: whoever ends them ends no training. A start that
// finds all steps done and these two not does them then. `Outcome::reason` says why the run ended.
//
// On several ranks each has a trainer, and all are called alike. They decide together when to stop and what to save: what one of them is asked
// for is done by all at the same step: under an outer loop between two rounds, for within one no worker knows of the others. Evaluations and
// checkpoints have the weights that the workers agreed on last; a step's loss is its own worker's. They look together for the checkpoint to continue from; each rank writes events of its own.
//
// A full disk ends no run: saves that fail are told as alarms, and the next one tries again. The last one has no next one: it is tried a
// few times, and then `Outcome::saved` is false and an alarm says from where a start goes on.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

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
#include "train/batch_ramp.h"
#include "train/corruption.h"
#include "train/machine_use.h"
#include "train/memory_checkpoints.h"
#include "train/run_control.h"
#include "train/save_interval.h"
#include "train/spike_ladder.h"
#include "train/state_keeper.h"
#include "train/step.h"
#include "train/task.h"

namespace longhaul::train {

struct TrainerOptions {
  recipe::LoadedRecipe recipe;
  std::filesystem::path run_folder;
  nlohmann::json environment = nlohmann::json::object();  // for checkpoints
  double flops_per_token = 0;                             // model FLOPs, forward and backward, causal; 0: no MFU
  double flops_per_token_full_attention = 0;              // the other convention (plan/flops.h)
  double flops_per_token_again = 0;                       // that recomputation makes a second time: HFU counts them too
  double peak_flops_per_second = 0;                       // measured; 0: no MFU
  std::function<void(int64_t step)> on_first_step{};      // behind the first step of this process; on all ranks
  observe::TraceWriter* trace = nullptr;                  // of the steps that observe.trace_every names; null: none
  optim::OuterLoop* outer = nullptr;                      // null: there is one worker
  std::optional<checkpoint::TierPlace> tier{};            // this rank's node's memory tier; none: checkpoints go to the disk only
  bool leaves_state = false;  // this process is this rank's alone: its daemon may ask it to leave its state in that tier (state_keeper.h)
};

struct Outcome {
  std::string reason = "finished";  // or "signal", "until_time"
  int64_t step = 0;                 // last step done
  int signal = 0;
  bool saved = true;  // the state at `step` is on the disk
};

struct Resumed {
  int64_t step = 0;                       // it stands at; 0: from the start
  std::optional<recipe::Recipe> earlier;  // what the steps so far were done with
};

class Trainer {
 public:
  Trainer(Task& task, optim::Optimizer& optimizer, parallel::Ranks& ranks, observe::EventWriter& events, storage::FileSystem& files,
          RunControl& control, TrainerOptions options);

  // Continues from the newest valid checkpoint of the run folder, if there is one: of the same run, with the same data (kUsage, kData). Where
  // there are only damaged ones it begins nothing (kCheckpoint).
  Resumed resume();
  // A new run's weights, in place of random ones. A collective call.
  void begin_with(const checkpoint::StartingPoint& from);
  Outcome run();
  int64_t step() const { return step_; }
  checkpoint::Providers state() const { return state_; }  // all that a checkpoint of the run keeps

 private:
  struct Counters final : checkpoint::StateProvider {
    int64_t tokens = 0, skipped = 0, skipped_in_a_row = 0;
    nlohmann::json facts() override;
    void restore(const checkpoint::SavedFacts& facts) override;
  };
  void steps();
  void recorded_step();
  void one_step();
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
  std::unique_ptr<checkpoint::OuterState> outer_state_;  // of an outer loop, in the place of the one above; null: none
  std::vector<checkpoint::StateProvider*> state_;
  int64_t step_ = 0;
  int64_t saved_step_ = -1;  // newest on the disk; -1: none
  double step_seconds_ = 0;  // of the last one
  int64_t parent_step_ = -1;
  bool judged_ = false;  // an earlier process has evaluated the state at the end
  double until_s_ = 0;
  Outcome outcome_;
  MachineUse use_;
  std::optional<SaveInterval> interval_;  // of rank 0, where checkpoints on the disk have no fixed one
  checkpoint::CopyOut copies_;
  MemoryCheckpoints memory_;
  std::optional<StateKeeper> keeper_;  // where the state of this rank can be left in memory
  checkpoint::Saver saver_;            // last: what it calls at the end uses everything above
};

}  // namespace longhaul::train
