// linear_cross_entropy on a GPU: a head and loss in chunks of tokens, whose products are LibTorch's and whose
// rows of logits our kernels turn into losses and gradients.
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
