// run_training: what `longhaul train RECIPE` does, from a resolved recipe to a finished run directory:
//
//   recipe.toml  tokenizer.json  events.jsonl  tensorboard/  checkpoints/  report.html
//                events/rank-N.jsonl: of the other ranks
//
// [parallel] says how many ranks train and how they share the model. The ranks are threads of this process,
// or the processes of `processes`, each of which calls this function with its own communicator. A run that
// cannot be dealt out is refused before anything is touched.
//
// A second start of the same run continues it. Options that must stay the same and have changed are refused
// before anything is touched.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "base/error.h"
#include "checkpoint/starting_point.h"
#include "comm/communicator.h"
#include "observe/board/rank_board.h"
#include "recipe/load.h"
#include "run/backend.h"
#include "train/task_entry.h"
#include "train/trainer.h"

namespace longhaul::run {

struct RunRequest {
  recipe::LoadedRecipe recipe;
  std::filesystem::path run_folder;
  // an earlier run in that folder is moved aside, never deleted
  bool fresh = false;
  // initial weights where the folder has no checkpoint; null: random ones
  std::shared_ptr<const checkpoint::StartingPoint> from = nullptr;
  // What this process computes on, and over what ranks exchange; none: as the recipe says, in one process
  // (run/backend.h).
  std::optional<RankPlace> place{};
  bool quiet = false;  // prints no tables and no step lines, but alarms
  bool saves = true;   // false: a probe (train/trainer.h)
  // the board of this process; of ranks that are threads, that of the first one. Null: none
  observe::BoardWriter* board = nullptr;
  // For ranks that are threads: called when one of them hangs outside all calls and the others have ended
  // with this error. It must end the process; null: end it with the error's exit code.
  std::function<void(const Error& failure)> end_process{};
  // The memory tier of each rank's node; empty: the one named in the process's environment, if any.
  std::function<checkpoint::TierPlace(int64_t rank)> tier_of_rank{};
};

// tasks: those that train.task can name.
train::Outcome run_training(RunRequest request, train::TaskEntries tasks,
                            comm::Communicator* processes = nullptr);

}  // namespace longhaul::run
