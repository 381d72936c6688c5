// Pretrain: next-token prediction on the corpus of [data], judged in bits per byte on held-out documents.
// With train.objective = masked it predicts masked tokens (data/order/masked.h) and is judged in bits per
// masked token. A masked token is easier to predict than a next token, because the text on both sides is
// known, so the two measures cannot be compared, and there are no bits per byte.
//
// On several ranks: the order of samples does not depend on the ranks. A replica takes its part of each
// step's rows, and a context rank its tokens of each row. Replicas share the batches of an evaluation and run
// equally many rounds of them, because experts may span replicas. Where sequences get longer on the way
// (optim.stages), held-out texts are read in sequences as long as those of the last step.
#pragma once

#include <memory>

#include "data/order/evaluation.h"
#include "data/order/staged_loader.h"
#include "data/run_data.h"
#include "evaluate/perplexity.h"
#include "generate/settings.h"
#include "kernels/saved/saved_tensors.h"
#include "language/teacher.h"
#include "language/text_stage.h"
#include "model/decoder.h"
#include "optim/schedule.h"
#include "recipe/recipe.h"

namespace longhaul::language {

// Refuses (kData) documents that are not grids where the model's positions are places on a grid
// (model.lightnet.grid).
void require_grids(const recipe::ModelConfig& model, const std::vector<const data::TokenDataset*>& datasets);

class Pretrain : public train::Task {
 public:
  // `data` and `ranks` must outlive the task. index_folder: where packing indexes are cached. share: see
  // TaskRequest. Refuses (kData) data with a token for which the model has no row.
  Pretrain(const recipe::Recipe& recipe, const data::RunData& data, const std::filesystem::path& index_folder,
           at::Device device, const parallel::Ranks& ranks,
           std::shared_ptr<data::BatchShare> share = nullptr);

  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  model::Decoder& decoder() { return decoder_; }
  void set_offload(std::unique_ptr<kernels::SavedTensors> offload) {
    offload_ = std::move(offload);
    decoder_.set_offload(offload_.get());
  }

  train::StepWork prepare(int64_t step) override;
  void set_growth(const std::vector<optim::BatchGrowth>& grown) override {
    schedule_ = optim::TrainSchedule(recipe_.optim, recipe_.train, grown);
  }
  void continue_after(int64_t step) override { step_ = step; }
  bool prepare_of(int64_t step, int64_t replica) override;
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;
  train::StageInput stage_input(int64_t micro_batch) const override;
  // With train.distill: distill/cross_entropy, distill/divergence and, where the layers are compared,
  // distill/distance, means over the labelled tokens.
  std::map<std::string, train::Metric> step_metrics() override;
  std::optional<observe::Metrics> evaluate(bool whole, const std::function<bool()>& go_on) override;
  std::optional<train::TaskSample> sample() override;
  nlohmann::json data_position(int64_t step) const override;
  void require_same_data(const nlohmann::json& saved, int64_t step) const override;
  std::optional<data::SampleRange> samples_of(int64_t first_step, int64_t last_step) const override {
    return loader_.samples_of(first_step - 1, last_step - 1);
  }
  void pass_over(const std::vector<data::SampleRange>& ranges) override { loader_.pass_over(ranges); }
  // the loader's next step is step + 1 of the trainer
  double epochs_after(int64_t step) const override { return loader_.epochs_at(step); }

 protected:  // for tasks that learn from other data, and show other samples
  const recipe::Recipe& recipe() const { return recipe_; }
  const data::RunData& data() const { return data_; }
  // Whether this rank is to make a sample: the first, if it holds the whole model. All ranks call it, and
  // gather their weights if they share them.
  bool holds_whole_model();
  generate::GenerateSettings sample_settings() const;  // of [sample]

 private:
  bool masked() const { return recipe_.train.objective == recipe::Objective::kMasked; }
  void require_rows() const;
  static void refuse_weights(const data::RunData& data);
  // sets the labels and inputs of the recipe's objective
  data::Batch with_objective(data::Batch batch) const;
  Tensor beside_teacher(model::Context& context, int64_t micro_batch);
  PackedText text_of(int64_t micro_batch) const;
  std::optional<evaluate::EvaluationResult> evaluate_on_ranks(data::EvaluationReader& reader,
                                                              const std::function<bool()>& go_on);

  recipe::Recipe recipe_;
  const data::RunData& data_;
  const parallel::Ranks& ranks_;
  optim::TrainSchedule schedule_;
  mutable data::StagedLoader loader_;               // asked about a step it makes what reads it
  int64_t step_ = 0;                                // the last one that was prepared or done
  std::unique_ptr<kernels::SavedTensors> offload_;  // for the decoder's layers; null: none
  model::Decoder decoder_;
  TextStage stage_;
  std::unique_ptr<Teacher> teacher_;  // null: it learns from labels alone
  std::vector<data::Batch> micro_batches_;
  std::vector<Teacher::Sums> taught_;  // by micro-batch
};

}  // namespace longhaul::language
