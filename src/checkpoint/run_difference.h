// Compares two runs by their checkpoints: finds the earliest step at which both have a checkpoint and the
// two differ, and lists the tensors that differ in the order in which the model uses them: weights first,
// then the optimizer state of the same tensors, then the task's state.
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
  std::vector<int64_t> equal_steps;          // steps at which both have a checkpoint and everything is equal
  std::optional<int64_t> step;               // the first step at which they differ
  storage::CheckpointDifference difference;  // at that step, in the model's order
  // Commands that make checkpoints which would show the difference, when these do not.
  std::vector<std::string> commands;

  const storage::TensorDifference* first_weight() const;     // null: none differs
  const storage::TensorDifference* first_optimizer() const;  // likewise
  const storage::TensorDifference* first_task() const;       // of a task's own state
  // The tensor with the greatest distance between two values.
  const storage::TensorDifference* largest() const;
};

// first_step: the first step whose events differ; 0: none. Checkpoints that are equal before that step say
// nothing about it, so commands are given when no step at or after it has a checkpoint in both runs.
RunDifference compare_runs(const std::filesystem::path& first_run, const std::filesystem::path& second_run,
                           int64_t first_step);

}  // namespace longhaul::checkpoint
