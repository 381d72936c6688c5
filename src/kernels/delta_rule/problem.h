// The arguments that every implementation of delta_rule gets, checked, in one struct; and the passes of
// each implementation, outside autograd.
#pragma once

#include <vector>

#include "kernels/delta_rule/op.h"

namespace longhaul::kernels {

inline constexpr const char* kDeltaRuleOp = "delta_rule";

struct DeltaRuleProblem {
  DeltaRuleInputs in;
  std::vector<int64_t> offsets;  // document boundaries

  int64_t tokens() const { return in.v_thv.size(0); }
  int64_t heads() const { return in.v_thv.size(1); }
  int64_t key_heads() const { return in.q_tgk.size(1); }
  int64_t group() const { return heads() / key_heads(); }
  int64_t keys() const { return in.q_tgk.size(2); }
  int64_t values() const { return in.v_thv.size(2); }
  int64_t documents() const { return static_cast<int64_t>(offsets.size()) - 1; }
  bool decays() const { return in.log_decay.defined(); }
  bool decays_by_channel() const { return decays() && in.log_decay.dim() == 3; }
  ScalarType state_type() const { return in.v_thv.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }
  at::TensorOptions state_options() const {
    return in.v_thv.options().dtype(state_type()).requires_grad(false);
  }
};

// In the dtypes of the inputs; log_decay where there is one. The initial state's is there always.
struct DeltaRuleGradients {
  Tensor q_tgk, k_tgk, v_thv, beta_th, log_decay, initial_state_nhkv;
};

DeltaRuleProblem delta_rule_problem(const DeltaRuleInputs& in);

LinearRecurrenceResult delta_rule_forward_reference(const DeltaRuleProblem& problem);
DeltaRuleGradients delta_rule_backward_reference(const DeltaRuleProblem& problem, const Tensor& d_o_thd,
                                                 const Tensor& d_final_nhkv);

}  // namespace longhaul::kernels
