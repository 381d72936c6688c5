// The options that several optimizers read. An option of one optimizer stands in that optimizer's file.
#pragma once

#include "recipe/optimizers/entry.h"

namespace longhaul::recipe {

inline constexpr double kAlmostOne = 0.999999999;  // the largest decay per step

inline constexpr OptimizerOption kBeta1 = {.name = "beta1",
                                           .field = &OptimOptions::beta1,
                                           .help = "decay of the first moment per step.",
                                           .most = kAlmostOne,
                                           .also_called = {"adam_beta1"}};
inline constexpr OptimizerOption kBeta2 = {.name = "beta2",
                                           .field = &OptimOptions::beta2,
                                           .help = "decay of the second moment per step.",
                                           .most = kAlmostOne,
                                           .also_called = {"adam_beta2"}};
inline constexpr OptimizerOption kEps = {.name = "eps",
                                         .field = &OptimOptions::eps,
                                         .help = "added to the root of the second moment.",
                                         .above = true,
                                         .also_called = {"adam_eps", "epsilon"}};
inline constexpr OptimizerOption kWeightDecay = {
    .name = "weight_decay",
    .field = &OptimOptions::weight_decay,
    .help = "Decoupled weight decay of matrices; norms and biases have none.",
    .most = 100,
    .may_change = true,
    .also_called = {"wd"}};
inline constexpr OptimizerOption kUpdateClip = {
    .name = "update_clip",
    .field = &OptimOptions::update_clip,
    .help = "root mean square that a tensor's update is shrunk to where it is larger.",
    .most = 1e6,
    .above = true};
inline constexpr OptimizerOption kSquareEps = {.name = "square_eps",
                                               .field = &OptimOptions::square_eps,
                                               .help = "added to squared gradients.",
                                               .above = true};
inline constexpr OptimizerOption kMomentum = {
    .name = "momentum",
    .field = &OptimOptions::momentum,
    .help = "decay of the momentum per step, 0: none is kept; -1: as published",
    .most = kAlmostOne,
    .published = true};
inline constexpr OptimizerOption kNesterov = {
    .name = "nesterov", .field = &OptimOptions::nesterov, .help = "the step looks ahead along the momentum."};

}  // namespace longhaul::recipe
