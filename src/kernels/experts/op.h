// Chooses experts, and moves tokens to them and back (docs/sources/minimax-01.md §2.5, §2.6).
//
//   route      logits = hidden routerᵀ in fp32, p = softmax(logits), the k largest of them (ties: the lower
//              expert), renormalised to sum to one; with the statistics that the auxiliary losses need, for
//              each sequence separately. Gradients flow through p and the weights, not through the
//              selection. RouterOptions offers other scores, a bias of the choice, and weights that are not
//              renormalised.
//   permute    every token is copied once for each expert it chose, sorted by expert (stable: tokens keep
//              their order)
//   combine    Σ_k weight · y[place], summed in fp32 in the order of k and rounded once
//
// On a GPU assign_experts copies the experts' row counts to the CPU and the caller waits, because the sizes
// of the following products depend on them. For meta tensors, whose choices are unknown, it spreads the
// rows evenly.
//
// fp32 means fp64 for fp64 inputs. Sums have a fixed order, so results do not depend on the number of
// threads. Empty inputs, and experts without tokens, are allowed.
#pragma once

#include <functional>
#include <vector>

#include "kernels/gradient_sink.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

struct RouterOptions {
  // sigmoid: scores s = σ(logits), each independent, as in DeepSeek-V3 (arXiv 2412.19437 §2.1.2); the
  // statistics' p is then s / Σ_e s. sqrt_softplus: √(log(1 + e^logit)), likewise
  // (docs/sources/moe-parallel-folding.md §4).
  enum class Score { kSoftmax, kSigmoid, kSqrtSoftplus };
  Score score = Score::kSoftmax;
  // The weights of a token's choices sum to one (except for 1e-20, because all of its sigmoids may vanish);
  // else they are its scores.
  bool normalised = true;
  double scale = 1;  // factor of the weights
  // Experts form `groups` groups of neighbours. A group is ranked by the sum of its k / groups_per_token
  // best values (scores and bias), and the experts are chosen from the groups_per_token best groups (ties:
  // the lower group).
  int64_t groups = 1, groups_per_token = 1;
  // [experts] fp32 or undefined: added to the scores for the choice alone, balance without a loss; no
  // gradient
  Tensor bias_e;
  // Replaces the scores in the choice: a function of the logits, without a gradient, that returns [tokens,
  // experts], for meta tensors too. The weights are still those of the scores. It cannot be combined with a
  // bias or groups.
  std::function<Tensor(const Tensor& logits_te)> judged{};
  // [tokens, k] int64 on hidden's device, k different experts for each token: the choice itself, instead of
  // one by scores, bias, groups or judged. The weights are those of these experts' scores; gradients flow
  // through them and p as usual. Undefined: route makes the choice.
  Tensor choice_tk{};
  // false: the routing has weights and choice alone, which is all that inference reads.
  bool statistics = true;
  bool plain() const {
    return score == Score::kSoftmax && normalised && scale == 1 && groups == 1 && !bias_e.defined() &&
           !judged;
  }
};

struct Routing {
  Tensor weight_tk;  // fp32, weights of the chosen experts, best first (or in the given order)
  Tensor choice_tk;  // int64
  // The statistics.
  Tensor probability_sum_se{};  // fp32 [sequences, experts]: Σ_t p_te over the tokens of each sequence
  Tensor count_se{};            // int64 [sequences, experts]: how often its tokens chose each expert
  Tensor log_sum_square{};      // fp32 scalar: Σ_t (log Σ_e exp logit_te)²
};
// hidden_td in bf16, fp32 or fp64; router_ed [experts, hidden] fp32. sequence_offsets: int64 [sequences +
// 1] on the CPU, like document offsets; undefined: one sequence. Weights and sums are differentiable in
// hidden; the gradient of the router is added to router_sink (undefined: not wanted). Our own loops, and a
// GPU, support plain options, a GPU no given choice; other cases use LibTorch's operators.
Routing route(const Tensor& hidden_td, const Tensor& router_ed, int64_t k, const GradientSink& router_sink,
              const Tensor& sequence_offsets = {}, const RouterOptions& options = {});
// With ATen operators; the router's gradient goes through autograd.
Routing route_reference(const Tensor& hidden_td, const Tensor& router_ed, int64_t k,
                        const Tensor& sequence_offsets = {});

struct ExpertAssignment {
  Tensor source_r;  // int64 [tokens · k]: token of each sorted row
  Tensor place_tk;  // int64 [tokens, k]: sorted row of each choice
  std::vector<int64_t> rows_per_expert;
};

// int64 [tokens, k] expert of each choice
ExpertAssignment assign_experts(const Tensor& choice_tk, int64_t experts);

// [tokens, hidden] → [tokens · k, hidden] sorted by expert. Differentiable.
Tensor permute_to_experts(const Tensor& x_td, const ExpertAssignment& assignment);

// Σ_k weight_tk · y[place_tk] → [tokens, hidden]. Differentiable in y and weight (weights fp32, fp64 for fp64
// inputs).
Tensor combine_experts(const Tensor& y_rd, const Tensor& weight_tk, const ExpertAssignment& assignment);

}  // namespace longhaul::kernels
