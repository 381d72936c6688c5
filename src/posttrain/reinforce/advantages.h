// The worth of an answer beside the others: advantages from rewards, and what a reward loses where an answer
// is too long. Plain numbers in fp64 and pure functions; the losses that take them are in policy_loss.h.
//
// The answers of a group are those to one prompt. Rewards must be finite.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longhaul::posttrain {

// kDeviation: (R − mean) / (s + eps) with the deviation s over n − 1 (GRPO, arXiv 2402.03300 §4.1.2); kMean:
// R − mean (Dr. GRPO, arXiv 2503.20783); kOthers: R − mean of the other answers (RLOO, arXiv 2402.14740).
enum class Baseline { kDeviation, kMean, kOthers };

// Advantages of one group; a group of one answer has R itself. Answers with equal rewards have advantages of
// exactly 0.
std::vector<double> group_advantages(std::span<const double> rewards, Baseline baseline, double eps = 1e-6);

// (A − mean) / (s + eps) over all answers of a batch, each of which counts as often as its weight says (its
// tokens): REINFORCE++ (arXiv 2501.03262). s is over the sum of the weights.
std::vector<double> batch_normalised(std::span<const double> advantages, std::span<const double> weights,
                                     double eps = 1e-8);

// Generalised advantage estimation (arXiv 1506.02438) over the tokens of one answer, which ends after the
// last: δ_t = r_t + γ V_{t+1} − V_t,  A_t = δ_t + γ λ A_{t+1}; returns are A + V.
struct Estimated {
  std::vector<double> advantages, returns;
};
Estimated generalised_advantages(std::span<const double> rewards, std::span<const double> values,
                                 double gamma, double lambda);

// The penalty that is added to the reward of an answer of so many tokens (DAPO, arXiv 2503.14476 §3.4): 0 up
// to limit − cache, then down in a straight line to −1 at the limit. cache 0: always 0.
double overlong_penalty(int64_t tokens, int64_t limit, int64_t cache);

}  // namespace longhaul::posttrain
