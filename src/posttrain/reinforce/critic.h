// Critic: a model of its own that says what every token of an answer will bring (algorithm = "ppo"). It
// begins as a copy of the policy, with a linear head whose values are 0, and learns by the squared error to
// the returns of generalised advantage estimation (advantages.h), clipped as policy_loss.h says.
//
//   V of a token is read where the policy draws it: from what stands before it.
//
// It is no part of the task's parameters: it has an optimizer of its own (optim.name with the numbers of
// [optim]), whose gradients are clipped by themselves, and is trained while a step is prepared. All of it is
// in every checkpoint, so a run that goes on has the same bits. Replicas hold copies and add up gradients;
// ZeRO does not cut it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "checkpoint/state.h"
#include "model/decoder.h"
#include "optim/optimizer.h"
#include "parallel/ranks.h"
#include "posttrain/reinforce/mini_batch.h"
#include "recipe/recipe.h"
#include "train/task.h"

namespace longhaul::posttrain {

class Critic final : public checkpoint::StateProvider {
 public:
  // All arguments but the recipe must outlive it.
  Critic(const recipe::Recipe& recipe, const ReinforceOptions& options, const Precision& precision,
         at::Device device, const parallel::Ranks& ranks);

  void take_once(const model::ParameterSet& policy);  // its weights, the first time that it is asked
  // Rollout batches that have trained it alone, before the first step (reinforce.critic_warmup).
  bool is_warm() const { return warm_batches_ >= options_.critic_warmup; }
  void add_warm_batch() { ++warm_batches_; }

  // Writes V of each sampled token into MicroBatch::l.
  void evaluate(std::vector<MicroBatch>& micro_batches, int64_t step);
  // One optimizer step on the returns of the answers. A gradient that is not finite changes nothing. Returns
  // the metrics of the step, the same on all ranks.
  std::map<std::string, train::Metric> train(const std::vector<MicroBatch>& micro_batches, int64_t step,
                                             double lr);

  std::vector<checkpoint::StateEntry> tensors() override;
  nlohmann::json facts() override;
  void restore(const checkpoint::SavedFacts& facts) override;

 private:
  // The decoder's tensors, or those of the head; each with its optimizer.
  struct Trained {
    model::ParameterSet& parameters;
    std::unique_ptr<optim::Optimizer> optimizer;
  };
  // V of the sampled tokens of a micro-batch, answer by answer, fp64 with a gradient; undefined: it has none.
  Tensor values(const MicroBatch& micro_batch, int64_t step, int64_t number, double auxiliary_scale);
  double update(double lr);  // → the norm of the gradients, before clipping

  const ReinforceOptions& options_;
  const parallel::Ranks& ranks_;
  uint64_t seed_;
  double clip_norm_;
  model::Decoder decoder_;
  model::ParameterSet head_;
  std::vector<Trained> trained_;
  int64_t warm_batches_ = 0;
  bool taken_ = false;
};

// The model of a critic: that of the policy, without a head for tokens.
recipe::ModelConfig critic_model(recipe::ModelConfig policy);

}  // namespace longhaul::posttrain
