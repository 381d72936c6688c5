// RolloutState: what a run keeps of its rollouts in checkpoints: the number of the next prompt, what levels
// were solved, where a rollout batch serves several steps the batch itself with its log-probabilities, and
// the batch that was generated ahead (reinforce.rollouts). A batch that a kill interrupts while it is
// generated leaves nothing: it is generated again, with the same bits.
#pragma once

#include <optional>

#include "checkpoint/state.h"
#include "posttrain/reinforce/kept_batch.h"

namespace longhaul::posttrain {

class RolloutState final : public checkpoint::StateProvider {
 public:
  // written_here: whether this rank writes it, of which all have the same. The options and prompts must
  // outlive it.
  RolloutState(const recipe::Recipe& recipe, const ReinforceOptions& options, const Prompts& prompts,
               bool written_here);

  int64_t next_prompt = 0;
  puzzles::LevelMixture levels;
  int64_t short_batches = 0, equal_batches = 0;  // that could not be filled; in which nothing differed
  RolloutBatch batch;
  // updates that the batch has served; as many as it serves: the next step begins a new one
  int64_t used = 0;
  std::optional<RolloutBatch> ahead;  // the batch behind it, if it was generated already

  // Of the tensors of batches that are kept here and in every checkpoint.
  static double kept_bytes(const recipe::Recipe& recipe, const ReinforceOptions& options);
  // Of the routes that answers hold beside them.
  static double route_bytes(const recipe::Recipe& recipe, const ReinforceOptions& options);

  void keep_batches();  // after a batch was made, before the step ends

  std::vector<checkpoint::StateEntry> tensors() override;
  nlohmann::json facts() override;
  void restore(const checkpoint::SavedFacts& facts) override;

 private:
  const ReinforceOptions& options_;
  const Prompts& prompts_;
  bool written_here_;
  std::optional<KeptBatch> kept_, kept_ahead_;  // none: no such batch outlives a step
};

}  // namespace longhaul::posttrain
