// linear_cross_entropy by CUDA kernels on tensors: a head and loss in chunks of tokens, with products of our own.
#pragma once

#include "kernels/cuda/calls.h"
#include "kernels/linear_cross_entropy/problem.h"

namespace longhaul::kernels {

struct CrossEntropyCuda {
  Tensor (*run)(const CrossEntropyProblem& problem, const CrossEntropyGradients& gradients);  // the loss of every token
};

}  // namespace longhaul::kernels
