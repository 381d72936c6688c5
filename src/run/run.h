// run_training: what `longhaul train RECIPE` does, from a resolved recipe to a finished run directory:
//
//   recipe.toml  tokenizer.json  events.jsonl  tensorboard/  checkpoints/  report.html      events/rank-N.jsonl: of ranks but the first
//
// [parallel] says how many ranks train, and how they share the model; they are threads here, or the processes of `processes`, each of which calls
// this with its own communicator. What cannot be dealt out is refused before anything is touched.
//
// A second start of the same run continues it; options that must stay the same and do not are refused before anything is touched.
#pragma once

#include <filesystem>
#include <functional>

#include "base/error.h"
#include "checkpoint/starting_point.h"
#include "comm/communicator.h"
#include "observe/board/rank_board.h"
#include "recipe/load.h"
#include "train/task_entry.h"
#include "train/trainer.h"

namespace longhaul::run {

struct RunRequest {
  recipe::LoadedRecipe recipe;
  std::filesystem::path run_folder;
  bool fresh = false;  // an earlier run in that folder is moved aside, never deleted
  std::shared_ptr<const checkpoint::StartingPoint> from =
      nullptr;                            // weights to begin with, where the folder has no checkpoint; null: random ones
  bool quiet = false;                     // no tables and no step lines; alarms all the same
  observe::BoardWriter* board = nullptr;  // where this process tells what it does; of ranks that are threads the first one's. Null: nowhere
  // Ranks that are threads: one of them hangs outside of all calls, and the others have ended with this error. Ends the process; null: with its exit code.
  std::function<void(const Error& failure)> end_process{};
  // Of each rank its node's memory tier; empty: the one in the process's environment, if there is one.
  std::function<checkpoint::TierPlace(int64_t rank)> tier_of_rank{};
};

// tasks: those that train.task can name.
train::Outcome run_training(RunRequest request, train::TaskEntries tasks, comm::Communicator* processes = nullptr);

}  // namespace longhaul::run
