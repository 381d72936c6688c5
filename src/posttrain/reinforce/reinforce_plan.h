// ReinforcePlan: the plan of the decoder, for ranks that share heads and layers as the engine can. To the
// memory of the passes it adds that of generation, and of what the task keeps beside the model.
#pragma once

#include "language/decoder_plan.h"

namespace longhaul::posttrain {

class ReinforcePlan final : public language::DecoderPlan {
 public:
  explicit ReinforcePlan(const recipe::Recipe& recipe) : DecoderPlan(recipe), recipe_(recipe) {}
  // Also refuses (kUsage) layouts with which the engine cannot generate, and outer loops.
  void require_possible(const parallel::Arrangement& arrangement) const override;
  // A step has as many sequences as the rollouts fill, and train.batch is not read.
  void require_batch(const std::string& where, int64_t batch, int64_t replicas) const override;
  // As if every prompt were as long as the longest one, and every answer reinforce.tokens long.
  plan::MemoryPlan memory(const plan::MemoryRequest& request, const plan::RankRequest* rank) const override;

 private:
  const recipe::Recipe& recipe_;
};

}  // namespace longhaul::posttrain
