// linear_recurrence by CUDA kernels on tensors, forward and backward, outside autograd.
#pragma once

#include "kernels/cuda/calls.h"
#include "kernels/linear_recurrence/problem.h"

namespace longhaul::kernels {

struct RecurrenceCuda {
  Refusal (*refuse)(const RecurrenceProblem& problem);
  LinearRecurrenceResult (*forward)(const RecurrenceProblem& problem);
  RecurrenceGradients (*backward)(const RecurrenceProblem& problem, const Tensor& d_o_thd,
                                  const Tensor& d_final_nhkv, bool want_decay);
};

}  // namespace longhaul::kernels
