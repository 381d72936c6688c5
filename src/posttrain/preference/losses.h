// Losses of preference learning, as functions of what answers got: the log-probability of each answer under
// the model that is trained (the policy) and under the frozen one that it began as (the reference), both
// summed over the answer's tokens, and the number of these tokens. All tensors are [n], one number an answer;
// the losses are [n] too, and their gradients reach policy_n by autograd. Pure functions.
//
// With the log-ratio r = log π(y|x) − log π_ref(y|x), h = r_chosen − r_rejected, σ the logistic function, |y|
// the number of tokens, ε = label_smoothing and β = beta:
//
//   dpo    −(1 − ε) log σ(β h) − ε log σ(−β h)                            (Rafailov 2023; ε: Mitchell 2023)
//   ipo    (h − 1 / (2β))²                                                (Azar 2023)
//   kto    w⁺ (1 − σ(β (r − z)))  of what is desirable, w⁻ (1 − σ(β (z − r)))  of what is not    (Ethayarajh
//          2024)
//   simpo  as dpo, with β h replaced by β (log π(c) / |c| − log π(r) / |r|) − γ        (Meng 2024)
//   orpo   −log π(c) / |c| − β log σ(o),  o = logit π(c)^(1/|c|) − logit π(r)^(1/|r|)  (Hong 2024; its λ is
//          β)
//   reward_weighted, rejection   −w log π(y): w = exp((reward − mean) / β), or the best answer of a prompt
//                                alone
//
// per_token: dpo and ipo take the mean over an answer's tokens for each log-probability instead of the sum.
#pragma once

#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::posttrain {

enum class PreferenceLoss { kDpo, kIpo, kKto, kOrpo, kSimpo, kRewardWeighted, kRejection };
std::vector<std::string_view> names_of(PreferenceLoss);

bool needs_reference(PreferenceLoss loss);
// a chosen answer with a rejected one; false: answers count by themselves
bool compares_two(PreferenceLoss loss);

struct LossNumbers {
  double beta = 0.1;
  double label_smoothing = 0;
  double gamma = 0.5;  // of simpo: the margin
  double desirable_weight = 1, undesirable_weight = 1;
  bool per_token = false;
};

// The scores that answers got. reference_n is undefined where the loss needs none.
struct AnswerScores {
  Tensor policy_n, reference_n, tokens_n;
};

// The implicit reward of answers, by which the chosen one should win: β · log-ratio; without a reference β ·
// the mean log-probability of a token.
Tensor implicit_rewards(PreferenceLoss loss, const AnswerScores& answers, const LossNumbers& numbers);

// loss: one that compares two.
Tensor pair_loss(PreferenceLoss loss, const AnswerScores& chosen, const AnswerScores& rejected,
                 const LossNumbers& numbers);

// desirable_n: 1 or 0. divergence: z, how far the policy is from the reference, not negative
// (mismatched_divergence).
Tensor kto_loss(const AnswerScores& answers, const Tensor& desirable_n, double divergence,
                const LossNumbers& numbers);
// The estimate of KTO's z: the mean log-ratio of answers to other prompts than their own, and at least 0.
double mismatched_divergence(const Tensor& policy_n, const Tensor& reference_n);

Tensor weighted_loss(const AnswerScores& answers, const Tensor& weight_n);

// Weights of reward-weighted fine-tuning, exp((reward − mean) / beta), at most `most`.
std::vector<double> reward_weights(const std::vector<double>& rewards, double beta, double most);

// Losses of a reward model. Pairwise (Bradley and Terry): −log σ(s_chosen − s_rejected − margin).
Tensor bradley_terry_loss(const Tensor& chosen_n, const Tensor& rejected_n, double margin);

}  // namespace longhaul::posttrain
