// OptimOptions: [optim] of a recipe: the optimizer, its learning-rate schedule, gradient clipping, stages
// that change the batch or the learning rate during the run (docs/sources/minimax-01.md §5.2), and a batch
// size that follows measurements. Plain data; declared in optim_options.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/sections/outer_options.h"

namespace longhaul::recipe {

class OptionSet;

// constant: lr after warm-up. linear, cosine, polynomial: from lr down to lr · final_lr_fraction over the
// decay. wsd: constant until decay_steps before the end, then down (docs/sources/minimax-01.md §5.2).
// inverse_sqrt: with the inverse square root of the steps since the start, but not below that fraction.
// one_cycle: up and down once over train.steps, with no warm-up beside it. cosine_restarts: from lr down to
// lr · final_lr_fraction again and again.
enum class Schedule {
  kConstant,
  kLinear,
  kCosine,
  kWsd,
  kInverseSqrt,
  kPolynomial,
  kOneCycle,
  kCosineRestarts
};
std::vector<std::string_view> names_of(Schedule);
// wsd: the form of its decay (optim/schedule.h).
enum class WsdFall { kExponential, kLinear, kCosine, kOneMinusSqrt, kHalving };
std::vector<std::string_view> names_of(WsdFall);
// one_cycle: the form of its rise and its falls.
enum class CycleForm { kCosine, kLinear };
std::vector<std::string_view> names_of(CycleForm);
// How a value rises from its start to its end (optim/schedule.h): the learning rate in warm-up, weight decay
// over the run.
enum class Rise { kLinear, kCosine, kOneMinusSqrt };
std::vector<std::string_view> names_of(Rise);

// OptimStage: from the first step at which `from_step` or `from_tokens` is reached (exactly one of them is
// given), lr, batch and sequence replace optim.lr, train.batch and train.sequence. 0: unchanged.
struct OptimStage {
  int64_t from_step = 0;
  int64_t from_tokens = 0;
  double lr = 0;
  int64_t batch = 0;
  int64_t sequence = 0;
  bool operator==(const OptimStage&) const = default;
};

enum class Role;  // recipe/mixers.h
std::vector<std::string_view> names_of(Role);

// The format of states that exist for every element (recipe/optimizers/optimizers.h says which do).
enum class StateDtype { kFloat32, kBfloat16, kInt8 };
std::vector<std::string_view> names_of(StateDtype);

// OptimGroup: an optimizer or numbers for the tensors of some roles (recipe/sections/optim_groups.h). -1 and
// "": as in [optim].
struct OptimGroup {
  std::vector<Role> tensors;  // empty: all, where `set` is named
  std::string set;            // only those of this set of the task (layout/parameter_sets.h); empty: of any
  std::string name;
  double lr_factor = 1;
  double weight_decay = -1, beta1 = -1, beta2 = -1;
  std::string state_dtype;
  bool operator==(const OptimGroup&) const = default;
};

// lamb: λ w is added to the update (apex's "adam_w" mode), or to the gradient.
enum class LambDecay { kDecoupled, kL2 };
std::vector<std::string_view> names_of(LambDecay);
// adafactor: the publication whose form is used (optim/optimizers/adafactor.h).
enum class AdafactorForm { kFairseq, kTorch, kBigVision };
std::vector<std::string_view> names_of(AdafactorForm);
// muon: the scale of the update of a matrix (optim/optimizers/muon.h).
enum class MuonScale { kMatchRms, kOriginal };
std::vector<std::string_view> names_of(MuonScale);

struct OptimOptions {
  std::string name = "adamw";
  double average = 0;  // > 0: decay of an averaged copy of the weights (train/averaged_weights.h)
  double lr = 1e-3;    // peak learning rate
  double beta1 = 0.9;
  double beta2 = 0.95;
  double beta3 = 0.995;
  double eps = 1e-8;
  double update_clip = 1, square_eps = 1e-30, residual_eps = 1e-16;
  bool correct_residuals = false;  // came
  double momentum = -1;            // -1: as published (recipe/optimizers/optimizers.h)
  bool nesterov = true;
  double sign_fade = 0;
  bool nvlamb = false;
  LambDecay lamb_decay = LambDecay::kDecoupled;
  bool lamb_grad_averaging = true;
  double lamb_min_ratio = 0, lamb_max_ratio = 0;  // bounds of the trust ratio; 0: none
  AdafactorForm adafactor_form = AdafactorForm::kFairseq;
  bool scale_by_weights = true, relative_step = true;  // adafactor
  MuonScale muon_scale = MuonScale::kMatchRms;
  int64_t muon_iterations = 5;
  StateDtype state_dtype = StateDtype::kFloat32;
  int64_t state_block = 256, state_least = 4096;  // int8: columns of a block; elements of the smallest tensor
  // for matrices; norms, biases and embedding vectors have none
  double weight_decay = 0.1;
  // factor of it at the beginning of the run; 1: it never changes
  double weight_decay_from = 1;
  Rise weight_decay_rise = Rise::kLinear;
  double clip_norm = 1.0;  // global gradient norm; 0: no clipping

  int64_t warmup_steps = 100;
  double warmup_from = 0;  // fraction of lr before the first step
  Rise warmup_rise = Rise::kLinear;
  Schedule schedule = Schedule::kCosine;
  double decay_power = 1;  // polynomial
  WsdFall wsd_fall = WsdFall::kExponential;
  // linear, cosine, polynomial: steps from the end of warm-up to the final rate, 0: until train.steps; wsd:
  // length of the last phase, 0: a tenth of train.steps.
  int64_t decay_steps = 0;
  double final_lr_fraction = 0.1;  // fraction of lr at the end of the decay
  // one_cycle: the share of train.steps until the peak, and what it and the start are divided by
  double cycle_rise = 0.3, cycle_start_divisor = 25, cycle_end_divisor = 1e4;
  CycleForm cycle_form = CycleForm::kCosine;
  bool cycle_symmetric = false;  // from the peak back to the start as fast as it rose, and then to the end
  int64_t restart_steps = 0;     // cosine_restarts: length of the first cycle
  int64_t restart_factor = 1;    // a cycle is so many times as long as the one before it
  std::vector<OptimStage> stages;
  // The batch is doubled when the measured critical batch (observe.batch_noise_every) is so many times the
  // batch; 0: never (train/batch_ramp.h).
  double batch_growth = 0;
  int64_t batch_most = 0;     // upper limit in sequences
  double batch_lr_power = 0;  // lr grows with this power of the batch
  std::vector<OptimGroup> groups;
  bool fresh_states = false;  // allows a run to continue with another optimizer
  OuterOptions outer;

  // of warm-up, which one_cycle has not
  int64_t steps_of_warmup() const { return schedule == Schedule::kOneCycle ? 0 : warmup_steps; }
  bool operator==(const OptimOptions&) const = default;
};

void declare(OptionSet& set, OptimStage& stage);
void declare(OptionSet& set, OptimGroup& group);
void declare(OptionSet& set, OptimOptions& optim);

}  // namespace longhaul::recipe
