// muP: with what each tensor begins and how fast it learns so that a learning rate and standard deviations found on a narrow model are right on a wide one
// (Tensor Programs V, arXiv 2203.03466, Table 8). With m = hidden / model.mup_base_hidden:
//
//                                            begins with      AdamW and its like     SGD
//   vectors (norms, biases, coefficients)    as ever          1                      m
//   input: only the output side grows        as at the base   1                      m        embedding; from a low rank
//   hidden: the input side grows             · 1/√m           1/m                    1
//   head                                     as at the base   1                      m        and logits are divided by m (model/decoder.h)
//
// Which side of a matrix grows is read off the list of a model twice as wide: hidden, heads and channel mixers wider; width of a head, ranks, experts and
// depth as they are. Attention keeps 1/√head_dim: widen by heads. Pure functions.
#pragma once

#include <vector>

#include "layout/parameters.h"
#include "recipe/sections/optim_options.h"

namespace longhaul::layout {

recipe::ModelConfig widened(recipe::ModelConfig config, int64_t factor);  // without muP

// Says of each tensor of `list` how it grows, and scales its beginning. `wider`: the list of widened(config, 2).
void apply_width(std::vector<ParameterSpec>& list, const std::vector<ParameterSpec>& wider, const recipe::ModelConfig& config);

// On the learning rate of a tensor whose width is `width`, under this optimizer (recipe/sections/optimizers.h says which rule it has; one without is a bug here).
double lr_factor_of_width(ParameterSpec::Width width, double factor, const recipe::OptimOptions& optimizer);

}  // namespace longhaul::layout
