// Preference: learning from answers that were compared, labelled or scored (train.task = "preference"). The
// losses are those of losses.h; the log-probability of an answer is the sum over its tokens, which are the
// same ids with every layout. The reference of dpo, ipo and kto is the model that the run begins with: its
// scores are computed before the first step (reference_scores.h).
//
// KTO measures how far the policy is from the reference on answers to other prompts. Each sample has one such
// answer, that of the next sample in the file with another prompt, cut to what fits into a row. Before a step
// the mean over all samples of the step is taken, so neither micro-batches nor replicas change it; it has no
// gradient.
#pragma once

#include "posttrain/preference/answer_task.h"
#include "posttrain/preference/reference_scores.h"

namespace longhaul::posttrain {

class Preference final : public AnswerTask {
 public:
  Preference(const recipe::Recipe& recipe, const PreferenceOptions& options, SplitSamples samples,
             at::Device device, const parallel::Ranks& ranks);

  std::vector<checkpoint::StateProvider*> state() override;
  double divergence() const { return divergence_; }  // KTO's z of the step

 protected:
  PackedAnswers packed(Side side, const std::vector<int64_t>& samples) const override;
  Tensor summed_loss(Side side, const std::vector<int64_t>& samples, const Tensor& scores_nd) const override;
  double weight_of(Side side, const std::vector<int64_t>& samples) const override;
  Metrics metrics_of(Side side, const std::vector<int64_t>& samples, const Tensor& scores_nd) const override;
  std::vector<std::string> names_of_metrics() const override;
  void before_step(int64_t step) override;
  void before_judging(const Tensor& scores) override;

 private:
  bool is_kto() const { return options_.loss == PreferenceLoss::kKto; }
  void weigh_by_rewards();
  void compute_reference();
  Tensor reference_of(Side side, const std::string& phase);
  PackedAnswers mismatched(Side side, const std::vector<int64_t>& samples) const;
  double divergence_of(Side side, const std::vector<int64_t>& samples);
  // The scores of answer number `answer` of some samples, for the loss.
  AnswerScores scores(Side side, const std::vector<int64_t>& samples, const Tensor& scores_nd,
                      int64_t answer) const;
  Tensor numbers(Side side, const std::vector<int64_t>& samples,
                 const std::function<double(const AnswerSample&)>& number) const;

  PreferenceOptions options_;
  ReferenceScores reference_;
  std::vector<double> weights_[2];  // by side, of each sample; 1 but in reward_weighted
  double divergence_ = 0;
};

}  // namespace longhaul::posttrain
