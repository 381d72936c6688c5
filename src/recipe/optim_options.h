// OptimOptions: [optim] of a recipe: the optimizer, its learning-rate schedule, gradient clipping, and stages that change the
// batch or the learning rate on the way (minimax-01.md §5.2). Plain data; declared in optim_options.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

// constant: lr after warm-up. linear, cosine: from lr down to lr · final_lr_fraction over the decay. wsd: constant until
// decay_steps before the end, then exponentially down (minimax-01.md §5.2).
enum class Schedule { kConstant, kLinear, kCosine, kWsd };
std::vector<std::string_view> names_of(Schedule);

// From the first step at which `from_step` or `from_tokens` is reached (exactly one of them is given), lr and batch hold instead
// of optim.lr and train.batch. 0: as before.
struct OptimStage {
  int64_t from_step = 0;
  int64_t from_tokens = 0;
  double lr = 0;
  int64_t batch = 0;
  bool operator==(const OptimStage&) const = default;
};

struct OptimOptions {
  std::string name = "adamw";
  double lr = 1e-3;  // peak learning rate
  double beta1 = 0.9;
  double beta2 = 0.95;
  double beta3 = 0.995;
  double eps = 1e-8;
  double update_clip = 1, square_eps = 1e-30, residual_eps = 1e-16;
  double weight_decay = 0.1;  // of matrices; norms, biases and embeddings' vectors have none
  double clip_norm = 1.0;     // global gradient norm; 0: no clipping

  int64_t warmup_steps = 100;
  Schedule schedule = Schedule::kCosine;
  int64_t decay_steps = 0;         // linear, cosine: steps from the end of warm-up to the final rate, 0: until train.steps;
                                   // wsd: length of the last phase, 0: a tenth of train.steps
  double final_lr_fraction = 0.1;  // of lr, reached at the end of the decay
  std::vector<OptimStage> stages;

  bool operator==(const OptimOptions&) const = default;
};

void declare(OptionSet& set, OptimStage& stage);
void declare(OptionSet& set, OptimOptions& optim);

}  // namespace longhaul::recipe
