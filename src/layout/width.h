// muP: the initial values and learning-rate factors of each tensor with which a learning rate and standard
// deviations found on a narrow model are right for a wide one (Tensor Programs V, arXiv 2203.03466, Table 8).
// With m = hidden / model.mup_base_hidden:
//
//                                            initial values   AdamW and similar   SGD
//   vectors (norms, biases, coefficients)    unchanged        1                   m
//   input: only the output side grows        as at the base   1                   m
//   embedding; from a low rank
//   hidden: the input side grows             · 1/√m           1/m                 1
//   head                                     as at the base   1                   m    logits are divided by
//                                                                                      m
//                                                                                     (model/decoder.h)
//
// Which side of a matrix grows is found by comparison with the list of a model twice as wide: hidden, heads
// and channel mixers are wider; width of a head, ranks, experts and depth are unchanged. Attention keeps
// 1/√head_dim: widen by more heads. Pure functions.
#pragma once

#include <vector>

#include "layout/parameters.h"
#include "recipe/sections/optim_options.h"

namespace longhaul::layout {

recipe::ModelConfig widened(recipe::ModelConfig config, int64_t factor);  // without muP

// Sets for each tensor of `list` how it grows, and scales its initial values. `wider`: the list of
// widened(config, 2).
void apply_width(std::vector<ParameterSpec>& list, const std::vector<ParameterSpec>& wider,
                 const recipe::ModelConfig& config);

// Factor of the learning rate of a tensor whose width is `width`, under this optimizer
// (recipe/optimizers/optimizers.h has its rule; an optimizer without one is a bug here).
double lr_factor_of_width(ParameterSpec::Width width, double factor, const recipe::OptimOptions& optimizer);

}  // namespace longhaul::layout
