#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace longhaul::optim {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

double half_wave(double done) { return 0.5 * (1 + std::cos(std::numbers::pi * done)); }  // from 1 to 0

// From `begin` to 1, of which step out of `steps` is done.
double risen(recipe::Rise rise, double begin, int64_t step, int64_t steps) {
  if (step >= steps) return 1;
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  const auto between = [&](double share) { return begin + (1 - begin) * share; };
  switch (rise) {
    case recipe::Rise::kLinear:
      return between(done);
    case recipe::Rise::kCosine:
      return between(1 - half_wave(done));
    case recipe::Rise::kOneMinusSqrt:
      return between(1 - std::sqrt(1 - done));
  }
  LONGHAUL_ASSERT(false, "rise {}", static_cast<int>(rise));
}

}  // namespace

TrainSchedule::TrainSchedule(const recipe::OptimOptions& optim, const recipe::TrainOptions& train,
                             const std::vector<BatchGrowth>& grown)
    : optim_(optim), steps_(train.steps) {
  if (optim.schedule == recipe::Schedule::kWsd && optim.wsd_fall == recipe::WsdFall::kExponential &&
      optim.final_lr_fraction <= 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a wsd schedule that falls exponentially never reaches 0",
                 .expected = "optim.final_lr_fraction above 0, or another optim.wsd_fall",
                 .found = "0",
                 .where = "optim.final_lr_fraction",
                 .hint = "optim.final_lr_fraction=0.1"});
  }
  stages_.push_back({.batch = train.batch, .peak_lr = optim.lr, .sequence = train.sequence});
  auto growth = grown.begin();
  for (const recipe::OptimStage& next : optim.stages) {
    // With larger batches tokens are reached by fewer steps.
    while (growth != grown.end() && growth->first_step <= first_step_of(next)) grow(*growth++);
    StageState state = stages_.back();
    state.first_step = first_step_of(next);
    if (next.batch > 0) state.batch = next.batch;
    if (next.lr > 0) state.peak_lr = next.lr;
    if (next.sequence > 0) state.sequence = next.sequence;
    begin(state);
  }
  while (growth != grown.end()) grow(*growth++);
}

int64_t TrainSchedule::first_step_of(const recipe::OptimStage& stage) const {
  if (stage.from_tokens == 0) return stage.from_step;
  const StageState& last = stages_.back();
  const int64_t tokens = std::max<int64_t>(0, stage.from_tokens - last.first_token);
  return last.first_step + divide_up(tokens, last.tokens_per_step());
}

void TrainSchedule::grow(const BatchGrowth& growth) {
  StageState state = stages_.back();
  state.first_step = growth.first_step;
  state.batch = growth.batch;
  state.peak_lr *= std::pow(static_cast<double>(growth.batch) / static_cast<double>(stages_.back().batch),
                            optim_.batch_lr_power);
  begin(state);
}

void TrainSchedule::begin(StageState state) {
  const StageState& last = stages_.back();
  if (state.first_step < last.first_step) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "optim.stages are out of order",
                 .expected = fmt::format("a stage that begins at step {} or later", last.first_step),
                 .found = fmt::format("one that begins at step {}", state.first_step),
                 .where = "optim.stages",
                 .hint = "list stages in order"});
  }
  const int64_t steps = state.first_step - last.first_step;
  state.first_sample = last.first_sample + steps * last.batch;
  state.first_token = last.first_token + steps * last.tokens_per_step();
  // A stage that begins on the same step as the one before it replaces it.
  if (state.first_step == last.first_step) stages_.pop_back();
  stages_.push_back(state);
}

const StageState& TrainSchedule::stage(int64_t step) const {
  LONGHAUL_ASSERT(step >= 1, "steps count from 1, this is {}", step);
  const auto after =
      std::upper_bound(stages_.begin(), stages_.end(), step,
                       [](int64_t s, const StageState& state) { return s < state.first_step; });
  return *(after - 1);
}

int64_t TrainSchedule::first_sample(int64_t step) const {
  const StageState& state = stage(step);
  return state.first_sample + (step - state.first_step) * state.batch;
}

int64_t TrainSchedule::first_token(int64_t step) const {
  const StageState& state = stage(step);
  return state.first_token + (step - state.first_step) * state.tokens_per_step();
}

bool TrainSchedule::changes_sequence() const {
  return std::ranges::any_of(stages_,
                             [this](const StageState& each) { return each.sequence != stages_[0].sequence; });
}

int64_t longest_sequence(const recipe::OptimOptions& optim, const recipe::TrainOptions& train) {
  int64_t longest = train.sequence;
  for (const recipe::OptimStage& stage : optim.stages) longest = std::max(longest, stage.sequence);
  return longest;
}

double TrainSchedule::learning_rate(int64_t step) const {
  const double peak = stage(step).peak_lr;
  if (optim_.schedule == recipe::Schedule::kOneCycle) return peak * in_one_cycle(step);
  return peak * risen(optim_.warmup_rise, optim_.warmup_from, step, optim_.warmup_steps) * decay(step);
}

double TrainSchedule::weight_decay_factor(int64_t step) const {
  return risen(optim_.weight_decay_rise, optim_.weight_decay_from, step, steps_);
}

// What is left behind the share `done`, from 1 to `end`.
double TrainSchedule::fallen(double done) const {
  const double end = optim_.final_lr_fraction;
  const auto between = [&](double left) { return end + (1 - end) * left; };
  switch (optim_.schedule) {
    case recipe::Schedule::kConstant:
      return 1;
    case recipe::Schedule::kLinear:
      return between(1 - done);
    case recipe::Schedule::kCosine:
      return between(half_wave(done));
    case recipe::Schedule::kPolynomial:
      return between(std::pow(1 - done, optim_.decay_power));
    case recipe::Schedule::kWsd:
      switch (optim_.wsd_fall) {
        case recipe::WsdFall::kExponential:
          return std::pow(end, done);
        case recipe::WsdFall::kLinear:
          return between(1 - done);
        case recipe::WsdFall::kCosine:
          return between(half_wave(done));
        case recipe::WsdFall::kOneMinusSqrt:
          return between(1 - std::sqrt(done));
        case recipe::WsdFall::kHalving:
          return between(2 * std::pow(0.5, done) - 1);
      }
      break;
    case recipe::Schedule::kInverseSqrt:
    case recipe::Schedule::kOneCycle:
    case recipe::Schedule::kCosineRestarts:
      break;  // have no single end that they fall to
  }
  LONGHAUL_ASSERT(false, "schedule {}", static_cast<int>(optim_.schedule));
}

double TrainSchedule::restarted(int64_t step) const {
  LONGHAUL_ASSERT(optim_.restart_steps > 0, "cycles of {} steps", optim_.restart_steps);
  int64_t done = std::max<int64_t>(0, step - std::max<int64_t>(1, optim_.warmup_steps));
  int64_t length = optim_.restart_steps;
  if (optim_.restart_factor == 1) done %= length;
  for (; done >= length; length *= optim_.restart_factor) done -= length;
  const double end = optim_.final_lr_fraction;
  return end + (1 - end) * half_wave(static_cast<double>(done) / static_cast<double>(length));
}

double TrainSchedule::in_one_cycle(int64_t step) const {
  const auto between = [&](double from, double to, double done) {
    done = std::clamp(done, 0.0, 1.0);
    const double left = optim_.cycle_form == recipe::CycleForm::kCosine ? half_wave(done) : 1 - done;
    return to + (from - to) * left;
  };
  const auto at = static_cast<double>(step), last = static_cast<double>(steps_);
  const double top = optim_.cycle_rise * last, back = 2 * top - 1;
  const double start = 1 / optim_.cycle_start_divisor, end = start / optim_.cycle_end_divisor;
  if (at <= top) return top > 1 ? between(start, 1, (at - 1) / (top - 1)) : 1;
  if (!optim_.cycle_symmetric) return between(1, end, (at - top) / (last - top));
  if (at <= back) return between(1, start, (at - top) / (top - 1));
  return between(start, end, (at - back) / (last - back));
}

double TrainSchedule::decay(int64_t step) const {
  if (optim_.schedule == recipe::Schedule::kCosineRestarts) return restarted(step);
  if (optim_.schedule == recipe::Schedule::kInverseSqrt) {
    const auto warmup = static_cast<double>(std::max<int64_t>(1, optim_.warmup_steps));
    return std::clamp(std::sqrt(warmup / static_cast<double>(step)), optim_.final_lr_fraction, 1.0);
  }
  const bool wsd = optim_.schedule == recipe::Schedule::kWsd;
  int64_t length = optim_.decay_steps, from = optim_.warmup_steps;
  if (wsd) {
    if (length == 0) length = std::max<int64_t>(1, steps_ / 10);
    from = steps_ - length;
  } else if (length == 0) {
    length = steps_ - from;
  }
  if (step <= from) return 1;
  const double done =
      length <= 0 ? 1.0 : std::min(1.0, static_cast<double>(step - from) / static_cast<double>(length));
  return fallen(done);
}

}  // namespace longhaul::optim
