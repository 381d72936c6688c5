// Mixture of experts without dropping (minimax-01.md §2.5): an fp32 router chooses k experts a token; their weights are the
// softmax over all experts, renormalised over the chosen ones. Auxiliary losses, weighted by the tokens of the micro-batch:
//
//   balance: c · E · Σ_e f_e P_e, f_e = share of the T·k choices that went to e (a constant), P_e = mean router probability
//   z: c_z · mean logsumexp(router logits)²
#pragma once

#include "kernels/experts/op.h"
#include "model/module.h"
#include "recipe/model_config.h"

namespace longhaul::model {

class Experts final : public ChannelMixer {
 public:
  Experts(const recipe::ModelConfig& config, int64_t layer, ParameterSet& parameters);
  Tensor forward(Context& context, const Tensor& hidden_td) override;

 private:
  void add_losses(Context& context, const kernels::Routing& routing, const std::vector<int64_t>& rows_per_expert) const;

  int64_t experts_, per_token_;
  double balance_coefficient_, z_coefficient_;
  Parameter* router_;
  Parameter* gate_up_;
  Parameter* down_;
};

}  // namespace longhaul::model
