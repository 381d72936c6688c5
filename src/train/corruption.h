// CorruptionChecks: looks now and then ([guard] of a recipe) whether what was computed and kept is what it should be, where nothing else would notice:
//
//   replicas  weights, and optimizer states that are not cut, of which several ranks hold copies: equal bits; a majority names the rank
//   states    masters, moments: finite, squares not negative, |m| not above what v allows; working weights are the rounding of their masters
//   products  a linear layer of this rank, drawn by the step's number, times random rows: by sums (kernels/linear/product_check.h); none where
//             nobody has a layer's weights whole between steps (parallel.zero = 3), nor in fp64 or on a GPU, which keep no packed weights
//   memory    optimizer states, behind a step and again before the next update changes them: the same hash (with `states`); alone, every bit
//   messages  sums of gradients over ranks are what their parts add up to (with `replicas`; parallel/checked_sums.h)
//   replay    the first micro-batch of the next replica: every block's output has the bits that it had there; alone: its own, twice
//
// A rank that is found out throws Error 71 (device), all others 69 (its victims), so that a driver restarts the run without its node from a checkpoint
// that was checked: replicas are compared before each save too. The alarm "silent_corruption" says what was found. One rank, one object; all ranks
// make the same calls. What each catches is measured by `longhaul bench corruption` (docs/design/numeric-guards.md).
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
  CorruptionChecks(const recipe::Recipe& recipe, Task& task, optim::Optimizer& optimizer, parallel::Ranks& ranks,
                   observe::EventWriter& events);

  void before_passes(int64_t step);  // of messages, where that is due
  void before_update(int64_t step);  // memory and messages, where they are
  void behind_step(int64_t step);    // those that are due
  void states_change();              // otherwise than in an update: what is remembered of them is over
  void before_save(int64_t step);    // replicas, once a step
  void behind_second_try(int64_t step, const SecondTry& second);

  // What is wrong here, for a person; nothing: all is well. Collective calls but for states.
  std::optional<std::string> replicas();
  std::optional<std::string> states();
  std::optional<std::string> products(int64_t step);
  std::optional<std::string> replay(int64_t step);
  void remember_states();
  std::optional<std::string> remembered_states();  // against what was remembered last; which is over
  std::optional<std::string> messages();           // of the sums since before_passes()

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
  int64_t errors_ = 0;                // of second tries
  std::vector<uint64_t> remembered_;  // hashes of states, in their order; empty: none
  std::optional<parallel::CheckedSums> sums_;
};

}  // namespace longhaul::train
