// Context: what every block needs besides its input: whether it trains, who crosses ranks, and where losses and statistics that are
// not the main loss go. One per forward pass of one micro-batch; owned by the Step.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/parallel_ops.h"
#include "model/rotary.h"
#include "tensor/tensor.h"

namespace longhaul::model {

struct Context {
  explicit Context(ParallelOps& parallel_ops, Precision run_precision = {}) : ops(parallel_ops), precision(run_precision) {}

  ParallelOps& ops;
  Precision precision;
  bool training = true;

  // Random key of dropout-like operators: streams are named from these.
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;

  RotaryTables rotary;

  // Scalars that are added to the loss, coefficient inside, already weighted by the micro-batch's tokens (a sum, as the main loss).
  std::vector<Tensor> auxiliary_losses;
  std::map<std::string, Tensor> statistics;  // scalars by name, "router/busiest_expert_share"; reading one waits for the device

  // Set by schedules that compute weight gradients later than input gradients: Linear puts its products there.
  std::vector<std::function<void()>>* postponed_weight_gradients = nullptr;

  // When set, called with (block name, output): how the numeric guard finds the first bad layer.
  std::function<void(const std::string&, const Tensor&)> inspect;
};

}  // namespace longhaul::model
