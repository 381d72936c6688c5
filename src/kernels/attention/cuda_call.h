// attention with CUDA kernels on tensors, forward and backward, outside autograd; and attention of one new
// token for each sequence over paged caches.
#pragma once

#include "kernels/attention/problem.h"
#include "kernels/cuda/calls.h"

namespace longhaul::kernels {

struct AttentionCuda {
  Refusal (*refuse)(const AttentionProblem& problem);
  AttentionResult (*forward)(const AttentionProblem& problem);
  Tensor (*delta)(const Tensor& o_thd, const Tensor& d_o_thd, const Tensor& d_logsumexp_th);
  void (*backward)(const AttentionProblem& problem, const AttentionOutside& outside,
                   const AttentionGradients& into);
  Refusal (*refuse_paged)(const PagedProblem& problem);
  AttentionResult (*paged)(const PagedProblem& problem);
};

}  // namespace longhaul::kernels
