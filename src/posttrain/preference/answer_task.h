// AnswerTask: what the tasks that learn from judged answers share (preference.h, reward.h): the order of
// samples, their micro-batches, one score for each answer through all layouts, and judging held-out samples.
// A step has train.batch samples (pairs, or single answers), a micro-batch train.micro_batch of them, and a
// row of at most train.sequence tokens holds one.
//
// On several ranks: the order of samples does not depend on the ranks. Context ranks add up their shares of
// an answer's score. Scores outside of steps are computed by all replicas together, each sample by one of
// them.
#pragma once

#include <memory>

#include "kernels/saved/saved_tensors.h"
#include "model/decoder.h"
#include "optim/schedule.h"
#include "posttrain/preference/packed_answers.h"
#include "recipe/recipe.h"
#include "train/task.h"

namespace longhaul::posttrain {

class AnswerTask : public train::Task {
 public:
  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  model::Decoder& decoder() { return decoder_; }
  void set_offload(std::unique_ptr<kernels::SavedTensors> offload) {
    offload_ = std::move(offload);
    decoder_.set_offload(offload_.get());
  }

  void set_growth(const std::vector<optim::BatchGrowth>& grown) override {
    schedule_ = optim::TrainSchedule(recipe_.optim, recipe_.train, grown);
  }
  train::StepWork prepare(int64_t step) override;
  bool prepare_of(int64_t step, int64_t replica) override;
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor& entering) override;
  train::StageInput stage_input(int64_t micro_batch) const override;
  std::map<std::string, train::Metric> step_metrics() override;
  std::optional<observe::Metrics> evaluate(bool whole, const std::function<bool()>& go_on) override;
  nlohmann::json data_position(int64_t step) const override;
  void require_same_data(const nlohmann::json& saved, int64_t step) const override;
  double epochs_after(int64_t step) const override;

  const SplitSamples& samples() const { return samples_; }
  // The indexes of the training samples of a step, for all replicas of this worker or for one replica of the
  // run.
  std::vector<int64_t> samples_of_worker(int64_t step) const;
  std::vector<int64_t> samples_of_replica(int64_t step, int64_t replica) const;

 protected:
  using Metrics = std::map<std::string, train::Metric>;
  // One kind of samples: those to train on, or those to judge by.
  enum class Side { kTrain, kHeldOut };

  // `ranks` must outlive the task.
  AnswerTask(const recipe::Recipe& recipe, SplitSamples samples, at::Device device,
             const parallel::Ranks& ranks);

  // The documents of some samples, and the score of a document from what its labelled tokens got.
  virtual PackedAnswers packed(Side side, const std::vector<int64_t>& samples) const = 0;
  virtual kernels::LogProbabilityOptions token_options() const { return {}; }
  virtual Tensor token_scores(const kernels::TokenLogProbabilities& tokens) const {
    return tokens.log_probability_t;
  }
  // The summed loss of samples from scores_nd [samples, documents of one], which may have a gradient.
  virtual Tensor summed_loss(Side side, const std::vector<int64_t>& samples,
                             const Tensor& scores_nd) const = 0;
  virtual double weight_of(Side side, const std::vector<int64_t>& samples) const = 0;
  // Their metrics; names_of_metrics() has all names, the same on every rank.
  virtual Metrics metrics_of(Side side, const std::vector<int64_t>& samples,
                             const Tensor& scores_nd) const = 0;
  virtual std::vector<std::string> names_of_metrics() const = 0;
  virtual void before_step(int64_t /*step*/) {}  // called by prepare() first
  // scores_nd of all held-out samples that are judged
  virtual void before_judging(const Tensor& /*scores*/) {}

  // Scores of `count` samples with the weights as they are, [count, columns] in fp64 on the CPU, the same on
  // all ranks of the worker, which call it together; undefined where go_on returned false. pack: makes the
  // documents of the samples from the first on, `columns` each.
  using Pack = std::function<PackedAnswers(int64_t first, int64_t count)>;
  Tensor scores_of(int64_t count, int64_t columns, const Pack& pack, const std::string& phase,
                   const std::function<bool()>& go_on = {});
  Tensor scores_of(Side side, int64_t count, const std::string& phase,
                   const std::function<bool()>& go_on = {});

  const std::vector<AnswerSample>& of(Side side) const {
    return side == Side::kTrain ? samples_.train.samples : samples_.held_out.samples;
  }
  int64_t documents_of_sample() const {
    return static_cast<int64_t>(samples_.train.samples.front().answers.size());
  }

  recipe::Recipe recipe_;
  const parallel::Ranks& ranks_;

 private:
  void require_same_on_all_ranks() const;
  int64_t count_to_judge(bool whole) const;
  int64_t index_at(int64_t position) const;
  std::vector<PackedAnswers> micro_batches_of(const std::vector<int64_t>& samples) const;

  SplitSamples samples_;
  std::string fingerprint_;
  optim::TrainSchedule schedule_;
  std::unique_ptr<kernels::SavedTensors> offload_;  // for the decoder's layers; null: none
  model::Decoder decoder_;
  language::TextStage stage_;
  bool scoring_ = false;  // scores_of() runs: no loss
  std::vector<PackedAnswers> micro_batches_;
  std::vector<Tensor> scores_;  // of the micro-batches whose last stage this rank has run, without gradient
};

}  // namespace longhaul::posttrain
