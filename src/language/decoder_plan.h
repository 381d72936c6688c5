// DecoderPlan: answers what a run asks about the decoder that [model] of a recipe describes, before the
// decoder is made (train/model_plan.h).
#pragma once

#include "recipe/recipe.h"
#include "train/model_plan.h"

namespace longhaul::language {

class DecoderPlan : public train::ModelPlan {
 public:
  explicit DecoderPlan(const recipe::Recipe& recipe) : recipe_(recipe) {}  // `recipe` must outlive it

  std::string name() const override;  // the preset, or the family
  int64_t layers() const override { return recipe_.model.layers; }
  int64_t vocabulary() const override { return recipe_.model.vocabulary; }
  std::vector<layout::ParameterSpec> parameters() const override;
  int64_t activated_elements(const layout::ParameterSpec& spec) const override;
  plan::TokenFlops flops() const override;
  double flops_again() const override;
  plan::DecodingState decoding_state() const override;
  parallel::Arrangement arrange(int64_t world) const override;
  void require_possible(const parallel::Arrangement& arrangement) const override;
  // Where all sequences of a step share the experts' room, or are balanced together, they pass the layers at
  // once.
  void require_batch(const std::string& where, int64_t batch, int64_t replicas) const override;
  plan::MemoryPlan memory(const plan::MemoryRequest& request, const plan::RankRequest* rank) const override;

 private:
  const recipe::Recipe& recipe_;
};

}  // namespace longhaul::language
