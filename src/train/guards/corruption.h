// CorruptionChecks: checks at intervals ([guard] of a recipe) that computed and stored values are what they
// should be, where nothing else would notice an error of the hardware:
//
//   replicas  Weights, and optimizer states that are not cut, have equal bits on all ranks that hold copies;
//             a majority vote names the wrong rank.
//   states    Masters and moments are finite, squares are not negative, |m| is not above what v allows, and
//             working weights are their rounded masters.
//   products  One linear layer of this rank, drawn by the step's number, times random rows agrees with
//             checksums (kernels/linear/product_check.h). The check is left out where no rank has whole
//             weights of a layer between steps (parallel.zero = 3), and in fp64 or on a GPU, which keep no
//             packed weights.
//   memory    Optimizer states have the same hash after a step and before the next update (with `states`); on
//             one rank every bit is compared.
//   messages  Sums of gradients over ranks equal the sum of their parts (with `replicas`;
//             parallel/checked_sums.h).
//   replay    The first micro-batch of the next replica gives every block's output with the same bits as
//             there; on one rank, the same micro-batch twice.
//
// The rank that is found wrong throws Error 71 (device), and all others throw 69 (its victims), so that a
// driver restarts the run without that node from a checkpoint that was checked: replicas are also compared
// before each save. The alarm "silent_corruption" describes the finding. There is one object for each rank,
// and all ranks make the same calls. `longhaul bench corruption` measures what each check catches
// (docs/design/numeric-guards.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/events/event_log.h"
#include "optim/optimizer.h"
#include "parallel/checked_sums.h"
#include "parallel/ranks.h"
#include "recipe/recipe.h"
#include "train/step.h"
#include "train/task.h"

namespace longhaul::train {

class CorruptionChecks {
 public:
  CorruptionChecks(const recipe::Recipe& recipe, Task& task, optim::Optimizer& optimizer,
                   parallel::Ranks& ranks, observe::EventWriter& events);

  void before_passes(int64_t step);  // starts the check of messages where it is due
  void before_update(int64_t step);  // checks memory and messages where they are due
  void behind_step(int64_t step);    // makes the other checks that are due
  // says that states change outside an update, so the remembered hashes no longer hold
  void states_change();
  void before_save(int64_t step);  // compares replicas, at most once in a step
  void behind_second_try(int64_t step, const SecondTry& second);

  // Each returns a description of what is wrong on this rank, or nothing. All but states() are collective
  // calls.
  std::optional<std::string> replicas();
  std::optional<std::string> states();
  std::optional<std::string> products(int64_t step);
  std::optional<std::string> replay(int64_t step);
  void remember_states();
  std::optional<std::string> remembered_states();  // compares with the remembered hashes, and forgets them
  std::optional<std::string> messages();           // judges the sums since before_passes()

 private:
  struct Copies;
  double bound_of(const std::string& tensor) const;  // on |m| over the root of v; 0: there is none
  std::vector<Copies> copies();
  void settle(int64_t step, const std::optional<std::string>& found, bool here = true);
  uint64_t outputs_of(int64_t step, int64_t replica);
  std::optional<uint64_t> replayed(int64_t step, int64_t replica);

  const recipe::Recipe& recipe_;
  Task& task_;
  optim::Optimizer& optimizer_;
  parallel::Ranks& ranks_;
  observe::EventWriter& events_;
  int64_t compared_step_ = -1;
  int64_t errors_ = 0;  // of second tries
  bool said_that_nothing_is_replayed_ = false;
  std::vector<uint64_t> remembered_;  // hashes of states, in their order; empty: none
  std::optional<parallel::CheckedSums> sums_;
};

}  // namespace longhaul::train
