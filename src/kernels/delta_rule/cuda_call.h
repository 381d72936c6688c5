// delta_rule by CUDA kernels on tensors, forward and backward, outside autograd.
#pragma once

#include "kernels/cuda/calls.h"
#include "kernels/delta_rule/problem.h"

namespace longhaul::kernels {

struct DeltaRuleCuda {
  Refusal (*refuse)(const DeltaRuleProblem& problem);
  LinearRecurrenceResult (*forward)(const DeltaRuleProblem& problem);
  DeltaRuleGradients (*backward)(const DeltaRuleProblem& problem, const Tensor& d_o_thd,
                                 const Tensor& d_final_nhkv);
};

}  // namespace longhaul::kernels
