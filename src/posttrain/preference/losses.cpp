#include "posttrain/preference/losses.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace longhaul::posttrain {
namespace {

// The certainty above which an answer's mean probability counts as this: odds are finite then.
constexpr double kLeastDoubt = -1e-9;

Tensor log_ratio(const AnswerScores& answers, bool per_token) {
  LONGHAUL_ASSERT(answers.reference_n.defined(), "a loss beside a reference without one");
  const Tensor ratio_n = answers.policy_n - answers.reference_n;
  return per_token ? ratio_n / answers.tokens_n : ratio_n;
}

Tensor mean_of_token(const AnswerScores& answers) { return answers.policy_n / answers.tokens_n; }

// −log σ(x), the labels of which may be wrong with probability `smoothing`.
Tensor smoothed(const Tensor& x_n, double smoothing) {
  const Tensor loss_n = -at::log_sigmoid(x_n);
  return smoothing == 0 ? loss_n : (1 - smoothing) * loss_n - smoothing * at::log_sigmoid(-x_n);
}

// log(p / (1 − p)) of log p.
Tensor log_odds(const Tensor& log_p_n) {
  const Tensor below_n = log_p_n.clamp_max(kLeastDoubt);
  return below_n - (-below_n.expm1()).log();
}

}  // namespace

std::vector<std::string_view> names_of(PreferenceLoss) {
  return {"dpo", "ipo", "kto", "orpo", "simpo", "reward_weighted", "rejection"};
}

bool needs_reference(PreferenceLoss loss) {
  return loss == PreferenceLoss::kDpo || loss == PreferenceLoss::kIpo || loss == PreferenceLoss::kKto;
}

bool compares_two(PreferenceLoss loss) {
  return loss == PreferenceLoss::kDpo || loss == PreferenceLoss::kIpo || loss == PreferenceLoss::kOrpo ||
         loss == PreferenceLoss::kSimpo;
}

Tensor implicit_rewards(PreferenceLoss loss, const AnswerScores& answers, const LossNumbers& numbers) {
  if (needs_reference(loss)) return numbers.beta * log_ratio(answers, numbers.per_token);
  return numbers.beta * mean_of_token(answers);
}

Tensor pair_loss(PreferenceLoss loss, const AnswerScores& chosen, const AnswerScores& rejected,
                 const LossNumbers& numbers) {
  const auto difference = [&] {
    return log_ratio(chosen, numbers.per_token) - log_ratio(rejected, numbers.per_token);
  };
  const Tensor c_n = mean_of_token(chosen), r_n = mean_of_token(rejected);
  switch (loss) {
    case PreferenceLoss::kDpo:
      return smoothed(numbers.beta * difference(), numbers.label_smoothing);
    case PreferenceLoss::kIpo:
      return (difference() - 1 / (2 * numbers.beta)).square();
    case PreferenceLoss::kSimpo:
      return smoothed(numbers.beta * (c_n - r_n) - numbers.gamma, numbers.label_smoothing);
    case PreferenceLoss::kOrpo:
      return -c_n - numbers.beta * at::log_sigmoid(log_odds(c_n) - log_odds(r_n));
    default:
      break;
  }
  LONGHAUL_ASSERT(false, "{} compares no two answers", names_of(loss)[static_cast<size_t>(loss)]);
  return {};
}

Tensor kto_loss(const AnswerScores& answers, const Tensor& desirable_n, double divergence,
                const LossNumbers& numbers) {
  const Tensor ahead_n = numbers.beta * (log_ratio(answers, false) - divergence);
  const Tensor good_n = numbers.desirable_weight * (1 - ahead_n.sigmoid());
  const Tensor bad_n = numbers.undesirable_weight * (1 - (-ahead_n).sigmoid());
  return at::where(desirable_n.to(at::kBool), good_n, bad_n);
}

double mismatched_divergence(const Tensor& policy_n, const Tensor& reference_n) {
  if (policy_n.numel() == 0) return 0;
  return std::max(0.0, (policy_n - reference_n).mean().item<double>());
}

Tensor weighted_loss(const AnswerScores& answers, const Tensor& weight_n) {
  return -weight_n * answers.policy_n;
}

std::vector<double> reward_weights(const std::vector<double>& rewards, double beta, double most) {
  std::vector<double> weights;
  const double mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) /
                      static_cast<double>(std::max<size_t>(1, rewards.size()));
  for (const double reward : rewards) weights.push_back(std::min(most, std::exp((reward - mean) / beta)));
  return weights;
}

Tensor bradley_terry_loss(const Tensor& chosen_n, const Tensor& rejected_n, double margin) {
  return -at::log_sigmoid(chosen_n - rejected_n - margin);
}

}  // namespace longhaul::posttrain
