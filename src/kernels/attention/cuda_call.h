// attention by CUDA kernels on tensors, forward and backward, outside autograd; and one new token a sequence over paged
// caches.
#pragma once

#include "kernels/attention/problem.h"
#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct AttentionCuda {
  Refusal (*refuse)(const AttentionProblem& problem);
  AttentionResult (*forward)(const AttentionProblem& problem);
  AttentionGradients (*backward)(const AttentionProblem& problem, const AttentionResult& result, const Tensor& d_o_thd,
                                 const Tensor& d_logsumexp_th);
  Refusal (*refuse_paged)(const PagedProblem& problem);
  AttentionResult (*paged)(const PagedProblem& problem);
};

}  // namespace longhaul::kernels
