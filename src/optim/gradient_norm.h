// The global L2 norm of all main gradients, and with it, in the same pass, whether they are finite. Sums are fp64 over blocks of
// fixed size in a fixed order: the bits do not depend on the number of threads, nor on which tensors share a value. On a GPU likewise, by
// our own kernel where it takes the gradients (fp32), and the caller waits for the result.
#pragma once

#include <functional>
#include <string>

#include "model/parameter.h"

namespace longhaul::optim {

struct GradientNorm {
  double norm = 0;              // NaN or infinite when `finite` is false
  bool finite = true;           // over all ranks
  std::string first_nonfinite;  // logical name of the first tensor of this rank with a NaN or Inf; empty: none here
};

// Of the gradients times `scale` (1 / tokens). Frozen tensors are left out. `sum` adds one squared norm up over all ranks, in place; of copies the
// first one counts (model::Part::first_copy).
using WorldSum = std::function<void(const Tensor& numbers)>;
GradientNorm gradient_norm(const model::ParameterSet& parameters, double scale = 1, const WorldSum& sum = {});

// What gradients are scaled by to have a norm of at most `clip_norm`: min(1, clip / (norm + 1e-6)); 1 when clip_norm is 0.
double clip_factor(double norm, double clip_norm);

}  // namespace longhaul::optim
