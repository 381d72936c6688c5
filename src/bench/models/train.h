// Measures whole training steps of a model preset on random tokens: forward, backward, clipping and AdamW,
// as `longhaul train` runs them (the same Step), without reading data. The peers in bench/peers/ measure
// the same for other programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/benchmark.h"
#include "kernels/operator_clock.h"
#include "tensor/device.h"

namespace longhaul::bench {

struct TrainRequest {
  std::string preset = "gpt2-124m";
  int64_t batch = 1, sequence = 1024;  // one micro-batch per step
  std::string dtype = "bf16";
  int64_t steps = 5;  // timed steps, after two that are not timed
  uint64_t seed = 0;
  at::Device device = at::kCPU;
  std::vector<std::string> overrides;  // overrides of the preset's recipe: "model.layers=4"
};

// One pass "" whose time is a whole step; figures: tokens_per_second (of the median step), mfu (causal
// attention), loss_first and loss_last. The check compares these two: steps on one batch must lower its
// loss. If the preset has softmax layers, also the share of the step that their attention takes:
// attention_share_measured (the operator alone at the same shape) and attention_share_predicted (by FLOPs).
// `peak` is the device's profile. `operators`, if any, takes what each operator took in the timed steps,
// which are a little slower then.
Result bench_train(const TrainRequest& request, const MachineProfile& peak,
                   std::vector<kernels::OperatorTime>* operators = nullptr);

}  // namespace longhaul::bench
