// RolloutState: what a run keeps of its rollouts in checkpoints: the number of the next prompt, what levels
// were solved, and, where a rollout batch serves several steps, the batch itself with its log-probabilities.
// A batch that a kill interrupts while it is generated leaves nothing: it is generated again, with the same
// bits.
#pragma once

#include "checkpoint/state.h"
#include "posttrain/reinforce/rollouts.h"

namespace longhaul::posttrain {

class RolloutState final : public checkpoint::StateProvider {
 public:
  // written_here: whether this rank writes it, of which all have the same. All arguments must outlive it.
  RolloutState(const ReinforceOptions& options, const Prompts& prompts, bool written_here);

  int64_t next_prompt = 0;
  puzzles::LevelMixture levels;
  int64_t short_batches = 0, equal_batches = 0;  // that could not be filled; in which nothing differed
  RolloutBatch batch;
  // updates that the batch has served; as many as it serves: the next step begins a new one
  int64_t used = 0;

  // Of the tensors of a batch that serves several steps, kept here and in every checkpoint; else 0.
  static double kept_bytes(const ReinforceOptions& options);

  void keep_batch();  // after a batch was made, before the step ends

  std::vector<checkpoint::StateEntry> tensors() override;
  nlohmann::json facts() override;
  void restore(const checkpoint::SavedFacts& facts) override;

 private:
  bool keeps() const { return options_.updates > 1; }

  const ReinforceOptions& options_;
  const Prompts& prompts_;
  bool written_here_;
  Tensor ids_, generated_, old_, reference_,
      values_;  // [answers of a batch, tokens]; undefined where nothing is kept
};

}  // namespace longhaul::posttrain
