// Trainer: the loop. Steps, evaluations, checkpoints, signals, the numeric guard and the events that tell of them; it knows no model.
// A process may hold several trainers in several threads: signals and the logger are the only things they share.
//
// What ends a run: all steps done, train.until_time, a stop request (signal; see stop_requested), too many skipped steps in a row
// (Error 67), a later start of the same run (Error 76: nothing more is written). A run that ends early has saved;
// `Outcome::reason` says why it ended. A full disk ends no run: saves that fail are told as alarms, and the next one tries again.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "checkpoint/save.h"
#include "observe/event_log.h"
#include "optim/schedule.h"
#include "recipe/load.h"
#include "storage/checkpoint_files.h"
#include "train/step.h"
#include "train/task.h"

namespace longhaul::train {

struct TrainerOptions {
  recipe::LoadedRecipe recipe;
  std::filesystem::path run_folder;
  std::function<nlohmann::json(int64_t next_step)> data_position;     // for checkpoints
  std::function<void(const storage::Checkpoint& saved)> check_saved;  // on resume: throws when it is of another run
  nlohmann::json environment;                                         // for checkpoints
  double flops_per_token = 0;                                         // model FLOPs, forward and backward, causal; 0: no MFU
  double flops_per_token_full_attention = 0;                          // the other convention (plan/flops.h)
  double peak_flops_per_second = 0;                                   // measured; 0: no MFU
  std::function<int()> stop_requested;                                // a signal number, or 0
  std::function<bool()> save_requested;
  std::function<bool()> continued;    // true once after the process was stopped and woken
  std::function<void()> on_progress;  // after each evaluation and at the end (report page)
};

struct Outcome {
  std::string reason;  // "finished", "signal", "until_time"
  int64_t step = 0;    // last step done
  int signal = 0;
  bool saved = true;  // the state at `step` is on the disk
};

class Trainer {
 public:
  Trainer(Task& task, optim::Optimizer& optimizer, observe::EventWriter& events, storage::FileSystem& files, TrainerOptions options);

  // Continues from the newest valid checkpoint of the run folder, if there is one. Returns the step it stands at, 0: from the start.
  int64_t resume();
  Outcome run();
  int64_t step() const { return step_; }

 private:
  void one_step();
  void report(const StepResult& result, double milliseconds);
  void evaluate(bool whole);
  void save();
  void finish(const std::string& reason);
  storage::Manifest manifest() const;
  const recipe::TrainOptions& train() const { return options_.recipe.recipe.train; }

  Task& task_;
  optim::Optimizer& optimizer_;
  observe::EventWriter& events_;
  storage::FileSystem& files_;
  TrainerOptions options_;
  optim::TrainSchedule schedule_;
  model::LocalOps ops_;
  checkpoint::Saver saver_;
  int64_t step_ = 0, tokens_ = 0, skipped_ = 0, skipped_in_a_row_ = 0;
  int64_t saved_step_ = -1, evaluated_step_ = -1, parent_step_ = -1;
};

}  // namespace longhaul::train
