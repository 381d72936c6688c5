// The loss that evens out how often experts are chosen. Of a set of tokens that is judged together
// (model.auxiliary_loss_of), with T of them, k choices each, E experts, n_e how often e was chosen (a
// constant) and p_te the router's probabilities; c: model.auxiliary_loss. A sum over tokens, as the main loss
// is:
//
//   switch        c · E · Σ_e (n_e / (T k)) · Σ_t p_te           of each router by itself; c a token when
//                                                                balanced (Switch 2101.03961 with k of
//                                                                GShard's choices, as Megatron-LM has it)
//   gshard        c · (1/E) · Σ_e (n_e / T) · Σ_t p_te           likewise; c k / E² when balanced (GShard
//                                                                2006.16668, as printed in MiniMax-01 too)
//   hugging_face  c · E · Σ_e F_e · P_e, where F_e = Σ_l n_le / (
//       L T) and P_e = Σ_l Σ_t p_lte / L are of all L routers of the model joined into one;
//                 c k when balanced (load_balancing_loss_func of transformers)
//
// Joint, a router's gradient c (E/L) F_e depends on the choices of those above it: they are known when the
// backward pass comes, which reads them then. Its value is told with the last router. The routers are all on
// one rank: pipelines are refused (parallel/pipeline/arrangement.cpp).
#pragma once

#include <string>

#include "model/context.h"
#include "recipe/architecture/model_config.h"

namespace longhaul::model {

class RouterBalance {
 public:
  RouterBalance(const recipe::ModelConfig& config, double coefficient, recipe::BalanceOf of);
  bool wanted() const { return factor_ > 0; }
  // Whether it is a loss of one router, or of all of them together.
  bool joint() const { return form_ == recipe::BalanceForm::kHuggingFace; }

  // count_se: of the choices of this replica's sequences, on every rank that shares them; probability_sum_se:
  // of this rank's own tokens, with its graph.
  Tensor loss(Context& context, const std::string& block, const Tensor& count_se,
              const Tensor& probability_sum_se) const;
  // The activation, behind which the backward pass gives probability_sum_se its gradient.
  Tensor join(Context& context, const std::string& block, const Tensor& activation, const Tensor& count_se,
              const Tensor& probability_sum_se) const;

 private:
  Tensor judged_counts(Context& context, const std::string& block, const Tensor& count_se) const;

  double factor_;  // of Σ_e (share of the choices) · Σ_t p; the coefficient inside
  recipe::BalanceForm form_;
  recipe::BalanceOf of_;
  int64_t routers_;
};

}  // namespace longhaul::model
