// One step of an optimizer on tensors that somebody else keeps, for comparisons: torch.ops.longhaul.optimizer_step. Everything is written in place;
// values, gradients (read only) and states are fp32 or fp64, all alike, contiguous, one or two dimensions. `step` counts from 1. `options`: numbers in
// the order below, as many as wanted; the rest are as optim.* has them. Weight decay is for every tensor. `states`: of each tensor in turn what its
// optimizer keeps, zeros before the first step.
//
//   name       options                                                                             states of [n, m]; of a vector
//   adamw      beta1 beta2 eps weight_decay                                                         m v
//   lamb       beta1 beta2 eps weight_decay nvlamb l2                                               m v
//   came       beta1 beta2 beta3 weight_decay square_eps residual_eps update_clip                   momentum, row_mean [n], column_mean [m],
//                                                                              row_residual, column_residual; momentum, second_moment
//   adafactor  momentum weight_decay square_eps update_clip form scale_by_weights relative_step     momentum (if above 0), row_mean, column_mean;
//                                                  (form: 0 fairseq, 1 torch, 2 big_vision)         second_moment
//   lion       beta1 beta2 weight_decay                                                             momentum
//   muon       momentum weight_decay nesterov original_scale iterations beta1 beta2 eps             momentum; adamw's m v
//   sm3        momentum weight_decay square_eps                                                     momentum (if above 0), row_bound, column_bound;
//                                                                                                   sum_of_squares
//   sgd        momentum weight_decay nesterov                                                       momentum (if above 0)
#pragma once

#include <span>
#include <string>

#include "tensor/tensor.h"

namespace longhaul::optim {

// kUsage for an unknown name, too many options, one out of range, and tensors that do not fit.
void step_of_tensors(const std::string& name, std::span<const Tensor> values, std::span<const Tensor> gradients,
                     std::span<const Tensor> states, int64_t step, double lr, std::span<const double> options);

}  // namespace longhaul::optim
