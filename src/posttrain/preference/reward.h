// Reward: a model that scores answers (train.task = "reward"), from pairs (pairwise: Bradley and Terry) or
// from answers with rewards (regression: squared error). The score of an answer is the logit of one token
// after the answer's last one: one row of the head, [1, hidden], times the last hidden state, which every
// layout has and every file of weights holds. reward.token names the row; one that no text holds has no other
// use.
#pragma once

#include "posttrain/preference/answer_task.h"

namespace longhaul::posttrain {

enum class RewardLoss { kPairwise, kRegression };
std::vector<std::string_view> names_of(RewardLoss);

struct RewardOptions {
  RewardLoss loss = RewardLoss::kPairwise;
  double margin = 0;
  std::string token;  // empty: the token that ends documents
  AnswerDataOptions data;
};

void declare_reward(recipe::OptionSet& set, recipe::OutsideOptions& outside);
RewardOptions reward_options(const recipe::Recipe& recipe);
// The id of the row. kData: no such token, or the model has no row for it.
int32_t score_token(const std::string& text, const data::Tokenizer& tokenizer, int64_t vocabulary);

class Reward final : public AnswerTask {
 public:
  Reward(const recipe::Recipe& recipe, const RewardOptions& options, int32_t token, SplitSamples samples,
         at::Device device, const parallel::Ranks& ranks);

 protected:
  PackedAnswers packed(Side side, const std::vector<int64_t>& samples) const override;
  kernels::LogProbabilityOptions token_options() const override;
  Tensor token_scores(const kernels::TokenLogProbabilities& tokens) const override;
  Tensor summed_loss(Side side, const std::vector<int64_t>& samples, const Tensor& scores_nd) const override;
  double weight_of(Side side, const std::vector<int64_t>& samples) const override;
  Metrics metrics_of(Side side, const std::vector<int64_t>& samples, const Tensor& scores_nd) const override;
  std::vector<std::string> names_of_metrics() const override;

 private:
  Tensor rewards_of(Side side, const std::vector<int64_t>& samples, at::Device device) const;

  RewardOptions options_;
  int32_t token_;
};

}  // namespace longhaul::posttrain
