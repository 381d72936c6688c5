// The losses of policy gradients, each from the log-probabilities of the tokens of answers: value and
// gradient g = dLoss/dl of every token in closed form. The sampled tokens of a batch stand in one row, answer
// by answer.
//
//   l      log π(token) now            r = exp(l − l_old), with l − l_old between −20 and 20
//   l_old  when the answers came       A  the advantage of the token's answer
//
//   kClip    max(−A r, −A clip(r, 1 − low, 1 + high)); for A < 0 at most −A c with dual clip c (PPO, GRPO,
//            DAPO)
//   kCispo   −sg(min(r, 1 + high)) A l, and not below 1 − low where low is set (MiniMax-M1, arXiv 2506.13585
//            §3.1)
//   kGspo    as kClip with the answer's s = exp(mean of l − l_old) in place of r (arXiv 2507.18071)
//   kEcpo    as kClip with the answer's ρ = π / max(π_old, sg(π) / (1 + high + early)) (OneRec, arXiv
//            2506.13695)
//   kGbpo    −A π / max(π_old, sg(π)) for A ≥ 0, and −A π / max(π_old, 1 − sg(π)) for A < 0 (OneRec-V2,
//            arXiv 2508.20900), of each token's own probability
//
// Where r is exactly a bound, the loss still has its gradient. A loss of whole answers (kGspo, kEcpo) stands
// at each of their tokens and counts once: its tokens weigh 1 / their number (token_weights). Everything is
// computed in fp64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace longhaul::posttrain {

enum class PolicyLoss { kClip, kCispo, kGspo, kEcpo, kGbpo };

struct PolicyLossOptions {
  PolicyLoss loss = PolicyLoss::kClip;
  double clip_low = 0.2, clip_high = 0.2;
  double dual_clip = 0;  // c; 0: none
  double early = 0.1;    // of kEcpo
};

// fp64 [tokens]; answer_t: int64, which answer a token is of, in ascending order from 0.
struct PolicyTokens {
  Tensor l_t, old_t, advantage_t, answer_t;
};

struct TokenLosses {
  Tensor loss_t, gradient_t;
  Tensor ratio_t;                        // r, s or ρ
  Tensor clipped_high_t, clipped_low_t;  // bool: the bound took the gradient, or the weight, of the token
};
TokenLosses policy_losses(const PolicyTokens& tokens, const PolicyLossOptions& options);

// Estimates of KL(π ‖ π_ref) from l and l_ref, with d = l_ref − l between −20 and 20: k1 = −d, k2 = d² / 2,
// k3 = exp(d) − d − 1, which is at most 10. Beyond the bounds there is no gradient.
enum class KlEstimator { kK1, kK2, kK3 };
struct TokenKl {
  Tensor kl_t, gradient_t;
};
TokenKl kl_losses(const Tensor& l_t, const Tensor& reference_t, KlEstimator estimator);

// How the tokens of a batch become one number: Σ w L / W.
//   kTokens     w = 1, W = all tokens (DAPO, CISPO)
//   kAnswers    w = 1 / tokens of the answer, W = answers (GRPO)
//   kConstant   w = 1 / longest answer allowed, W = answers (Dr. GRPO)
enum class Aggregation { kTokens, kAnswers, kConstant };
struct Weights {
  double token = 0;  // w of each of the answer's tokens
  double whole = 0;  // what the answer adds to W
};
Weights token_weights(Aggregation aggregation, int64_t tokens, int64_t longest);

// A tensor with this value whose gradient with respect to l_t is gradient_t.
Tensor with_gradient(const Tensor& value_t, const Tensor& gradient_t, const Tensor& l_t);

// 0.5 max((V − R)², (clip(V, V_old − e, V_old + e) − R)²) of each token, and its gradient by V.
struct ValueLosses {
  Tensor loss_t, gradient_t;
};
ValueLosses value_losses(const Tensor& value_t, const Tensor& old_t, const Tensor& return_t, double clip);

}  // namespace longhaul::posttrain
