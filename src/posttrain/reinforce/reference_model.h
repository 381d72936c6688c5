// ReferenceModel: a copy of the model as the run began, from which the policy may not go far (reinforce.kl).
// Its weights are those of the first step and part of every checkpoint, so that a run that goes on has the
// same.
#pragma once

#include "checkpoint/state.h"
#include "language/text_stage.h"
#include "model/decoder.h"
#include "recipe/recipe.h"

namespace longhaul::posttrain {

class ReferenceModel final : public checkpoint::StateProvider {
 public:
  ReferenceModel(const recipe::Recipe& recipe, const Precision& precision, at::Device device,
                 const parallel::Ranks& ranks);

  void take_once(const model::ParameterSet& from);  // the values, the first time that it is asked
  const language::TextStage& stage() const { return stage_; }

  std::vector<checkpoint::StateEntry> tensors() override;
  nlohmann::json facts() override { return {{"reinforce_reference", taken_}}; }
  void restore(const checkpoint::SavedFacts& facts) override;

 private:
  model::Decoder decoder_;
  language::TextStage stage_;
  bool taken_ = false;
};

}  // namespace longhaul::posttrain
