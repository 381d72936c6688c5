// Recall: sequences of random tokens whose scored tokens can be known only by remembering earlier ones
// (data/order/recall.h). Every step has new sequences, unless [recall] limits their number. The model is
// judged by the share of right answers on sequences that are never trained on.
//
// On several ranks: the order of sequences does not depend on the ranks. A replica (of any worker) takes its
// part of each step's sequences, and a context rank its tokens of each. Such runs are judged by the loss
// only, because no rank there has all logits of a token.
#pragma once

#include <memory>

#include "data/order/recall.h"
#include "kernels/saved/saved_tensors.h"
#include "language/text_stage.h"
#include "model/decoder.h"
#include "optim/schedule.h"
#include "recipe/recipe.h"

namespace longhaul::language {

data::RecallShape recall_shape(const recipe::Recipe& recipe);

class Recall final : public train::Task {
 public:
  // `ranks` must outlive the task. Refuses (kUsage) sequences that cannot be made.
  Recall(const recipe::Recipe& recipe, at::Device device, const parallel::Ranks& ranks);

  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  model::Decoder& decoder() { return decoder_; }
  void set_offload(std::unique_ptr<kernels::SavedTensors> offload) {
    offload_ = std::move(offload);
    decoder_.set_offload(offload_.get());
  }

  train::StepWork prepare(int64_t step) override;
  bool prepare_of(int64_t step, int64_t replica) override;
  void set_growth(const std::vector<optim::BatchGrowth>& grown) override {
    schedule_ = optim::TrainSchedule(recipe_.optim, recipe_.train, grown);
  }
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;
  train::StageInput stage_input(int64_t micro_batch) const override;
  std::map<std::string, train::Metric> step_metrics() override;
  std::optional<observe::Metrics> evaluate(bool whole, const std::function<bool()>& go_on) override;
  nlohmann::json data_position(int64_t step) const override;
  void require_same_data(const nlohmann::json& saved, int64_t step) const override;
  double epochs_after(int64_t step) const override;

 private:
  struct Rows {
    layout::SequenceLayout layout;
    std::vector<int64_t> inputs, labels;
    int64_t labelled = 0;
  };
  Rows rows(int64_t count, const std::function<int64_t(int64_t)>& index) const;
  std::vector<Rows> micro_batches_of(int64_t step, int64_t replica) const;
  PackedText text_of(int64_t micro_batch) const;
  std::optional<observe::Metrics> evaluate_on_ranks(const std::function<bool()>& go_on);

  recipe::Recipe recipe_;
  data::RecallShape shape_;
  const parallel::Ranks& ranks_;
  optim::TrainSchedule schedule_;
  std::unique_ptr<kernels::SavedTensors> offload_;  // for the decoder's layers; null: none
  model::Decoder decoder_;
  TextStage stage_;
  std::vector<Rows> micro_batches_;
};

}  // namespace longhaul::language
