#include "posttrain/preference/reward.h"

#include <algorithm>

#include "base/error.h"

namespace longhaul::posttrain {

std::vector<std::string_view> names_of(RewardLoss) { return {"pairwise", "regression"}; }

void declare_reward(recipe::OptionSet& set, recipe::OutsideOptions& outside) {
  const auto names = names_of(RewardLoss{});
  set.add("reward.loss", outside.text("reward.loss", "pairwise"),
          "pairwise: the chosen answer of a pair scores higher; regression: an answer scores its \"reward\". "
          "The answers are those of "
          "preference.data.")
      .one_of({names.begin(), names.end()});
  set.add("reward.margin", outside.number("reward.margin", 0),
          "By how much the chosen answer of a pair is to score higher.")
      .at_least(0);
  set.add("reward.token", outside.text("reward.token", ""),
          "Token whose row of the head is the head of the scores; best one that no text holds. Empty: the "
          "token that ends documents.");
}

RewardOptions reward_options(const recipe::Recipe& recipe) {
  const std::string& loss = recipe.outside.text("reward.loss");
  return {.loss = loss == "regression" ? RewardLoss::kRegression : RewardLoss::kPairwise,
          .margin = recipe.outside.number("reward.margin"),
          .token = recipe.outside.text("reward.token"),
          .data = answer_data_options(recipe)};
}

int32_t score_token(const std::string& text, const data::Tokenizer& tokenizer, int64_t vocabulary) {
  const std::optional<int32_t> id = text.empty() ? tokenizer.end_of_document() : tokenizer.id_of(text);
  if (id && *id < vocabulary) return *id;
  throw Error(
      {.code = ExitCode::kData,
       .what = "there is no row of the head for the scores",
       .expected = fmt::format("a token of the tokenizer with an id below model.vocabulary = {}", vocabulary),
       .found = id             ? fmt::format("id {}", *id)
                : text.empty() ? "no token that ends documents"
                               : text,
       .where = "reward.token",
       .hint = "reward.token='<|some token of the tokenizer|>'"});
}

Reward::Reward(const recipe::Recipe& recipe, const RewardOptions& options, int32_t token,
               SplitSamples samples, at::Device device, const parallel::Ranks& ranks)
    : AnswerTask(recipe, std::move(samples), device, ranks), options_(options), token_(token) {}

PackedAnswers Reward::packed(Side side, const std::vector<int64_t>& samples) const {
  AnswerPacker packer;
  for (const int64_t index : samples) {
    const AnswerSample& sample = of(side)[static_cast<size_t>(index)];
    packer.begin_sample(index);
    for (const auto& answer : sample.answers) {
      std::vector<int32_t> all = sample.prompt;
      all.insert(all.end(), answer.begin(), answer.end());
      packer.add(all, {token_});
    }
  }
  return packer.finish();
}

kernels::LogProbabilityOptions Reward::token_options() const { return {.logsumexp = true}; }

// The logit of the label, and 0 where there is none.
Tensor Reward::token_scores(const kernels::TokenLogProbabilities& tokens) const {
  return tokens.log_probability_t + tokens.logsumexp_t;
}

Tensor Reward::rewards_of(Side side, const std::vector<int64_t>& samples, at::Device device) const {
  std::vector<double> rewards;
  for (const int64_t index : samples) rewards.push_back(of(side)[static_cast<size_t>(index)].reward);
  return at::tensor(rewards, at::kDouble).to(device);
}

Tensor Reward::summed_loss(Side side, const std::vector<int64_t>& samples, const Tensor& scores_nd) const {
  if (options_.loss == RewardLoss::kPairwise)
    return bradley_terry_loss(scores_nd.select(1, 0), scores_nd.select(1, 1), options_.margin).sum();
  return (scores_nd.select(1, 0) - rewards_of(side, samples, scores_nd.device())).square().sum();
}

double Reward::weight_of(Side /*side*/, const std::vector<int64_t>& samples) const {
  return static_cast<double>(samples.size());
}

std::vector<std::string> Reward::names_of_metrics() const {
  if (options_.loss == RewardLoss::kPairwise)
    return {"accuracy", "score_margin", "chosen_score", "rejected_score"};
  return {"score", "absolute_error"};
}

AnswerTask::Metrics Reward::metrics_of(Side side, const std::vector<int64_t>& samples,
                                       const Tensor& scores_nd) const {
  Metrics all;
  const auto tell = [&](const std::string& name, const Tensor& value_n) {
    all[name] = {value_n.to(at::kDouble).sum().item<double>(), static_cast<double>(value_n.numel())};
  };
  const Tensor first_n = scores_nd.select(1, 0);
  if (options_.loss == RewardLoss::kRegression) {
    tell("score", first_n);
    tell("absolute_error", (first_n - rewards_of(side, samples, at::kCPU)).abs());
    return all;
  }
  const Tensor second_n = scores_nd.select(1, 1);
  tell("accuracy", first_n.gt(second_n));
  tell("score_margin", first_n - second_n);
  tell("chosen_score", first_n);
  tell("rejected_score", second_n);
  return all;
}

}  // namespace longhaul::posttrain
