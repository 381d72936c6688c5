// Comparing two runs by their checkpoints: the earliest step at which both have one and the two differ, and which tensors do, in the
// order in which the model uses them: weights first, then the optimizer's state of the same tensors,
// then the task's.
//
//   const RunDifference found = compare_runs("runs/a", "runs/b", events.first_step());
//
// Every byte of the compared checkpoints is read; memory stays bounded (storage/diff.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "storage/diff.h"

namespace longhaul::checkpoint {

struct RunDifference {
  std::vector<int64_t> equal_steps;          // at which both have a checkpoint and all is equal
  std::optional<int64_t> step;               // the first at which they differ
  storage::CheckpointDifference difference;  // at that step, in the model's order
  std::vector<std::string> commands;         // what to type for checkpoints that would show it, when these do not

  const storage::TensorDifference* first_weight() const;     // null: none differs
  const storage::TensorDifference* first_optimizer() const;  // likewise
  const storage::TensorDifference* first_task() const;       // of a task's own state
  const storage::TensorDifference* largest() const;          // by the greatest distance of two values
};

// first_step: the first whose events differ, 0: none. Checkpoints that are equal before it say nothing about it, so commands are
// given when none at or after it lies in both runs.
RunDifference compare_runs(const std::filesystem::path& first_run, const std::filesystem::path& second_run, int64_t first_step);

}  // namespace longhaul::checkpoint
