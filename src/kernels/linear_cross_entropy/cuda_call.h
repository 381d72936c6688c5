// linear_cross_entropy by CUDA kernels on tensors: a head and loss in chunks of tokens, with products of our
// own.
#pragma once

#include "kernels/cuda/calls.h"
#include "kernels/linear_cross_entropy/problem.h"

namespace longhaul::kernels {

struct CrossEntropyCuda {
  // the loss of every token
  Tensor (*run)(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);
  void (*token_logits)(const CrossEntropyProblem& problem, const TokenLogits& out);
  void (*token_logits_backward)(const CrossEntropyProblem& problem, const TokenLogitsGradient& of,
                                const CrossEntropyGradients& into);
};

}  // namespace longhaul::kernels
