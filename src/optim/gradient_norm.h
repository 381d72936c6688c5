// Computes the global L2 norm of all main gradients and checks, in the same pass, whether they are finite.
// Sums are fp64 over blocks of fixed size in a fixed order, so the bits depend neither on the number of
// threads nor on which tensors share a value. The same holds on a GPU, where our own kernel is used if it
// supports the gradients (fp32); the caller waits for the result.
#pragma once

#include <functional>
#include <string>

#include "model/parameter.h"

namespace longhaul::optim {

struct GradientNorm {
  double norm = 0;     // NaN or infinite when `finite` is false
  bool finite = true;  // over all ranks
  // logical name of the first tensor of this rank with a NaN or Inf; empty: none here
  std::string first_nonfinite;
};

// The norm of the gradients times `scale` (1 / tokens). Frozen tensors are left out. `sum` adds up one
// squared norm over all ranks, in place; when several ranks hold copies, the first copy counts
// (model::Part::first_copy).
using WorldSum = std::function<void(const Tensor& numbers)>;
GradientNorm gradient_norm(const model::ParameterSet& parameters, double scale = 1, const WorldSum& sum = {});

// The factor that scales gradients to a norm of at most `clip_norm`: min(1, clip / (norm + 1e-6)); 1 when
// clip_norm is 0.
double clip_factor(double norm, double clip_norm);

}  // namespace longhaul::optim
