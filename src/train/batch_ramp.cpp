#include "train/batch_ramp.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "train/trainer.h"

namespace longhaul::train {

std::optional<int64_t> BatchRamp::measured(int64_t step, int64_t batch, const optim::NormOfBatch& small,
                                           const optim::NormOfBatch& all) {
  noise_.add(small, all);
  ++measurements_;
  const std::optional<double> critical = noise_.critical_batch();
  if (!follows() || measurements_ < kMeasurements || 2 * batch > most_ || !critical ||
      *critical < growth_ * all.tokens)
    return std::nullopt;
  measurements_ = 0;
  grown_.push_back({.first_step = step + 1, .batch = 2 * batch});
  return 2 * batch;
}

nlohmann::json BatchRamp::facts() {
  const bool nothing = noise_.sums() == optim::BatchNoise::Sums{} && grown_.empty();
  if (nothing || !same_on_all_) return nlohmann::json::object();
  nlohmann::json grown = nlohmann::json::array();
  for (const optim::BatchGrowth& each : grown_) grown.push_back({each.first_step, each.batch});
  return {{"batch_noise",
           {{"gradient", noise_.sums().gradient},
            {"noise", noise_.sums().noise},
            {"measurements", measurements_},
            {"grown", grown}}}};
}

void BatchRamp::restore(const checkpoint::SavedFacts& facts) {
  noise_.restore({});
  measurements_ = 0;
  grown_.clear();
  const auto saved = facts.state.find("batch_noise");
  if (saved == facts.state.end()) return;
  try {
    noise_.restore({.gradient = saved->at("gradient"), .noise = saved->at("noise")});
    measurements_ = saved->at("measurements");
    for (const nlohmann::json& each : saved->at("grown"))
      grown_.push_back({.first_step = each.at(0), .batch = each.at(1)});
  } catch (const nlohmann::json::exception& problem) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "state.batch_noise of the checkpoint cannot be read",
                 .found = problem.what(),
                 .where = facts.where});
  }
}

// ---- of the trainer

void Trainer::set_growth() {
  schedule_ = optim::TrainSchedule(options_.recipe.recipe.optim, train(), ramp_.grown());
  task_.set_growth(ramp_.grown());
}

// Behind the step's update; `work` is of all replicas of this worker.
void Trainer::take_noise(StepResult& result) {
  if (ramp_.follows()) result.metrics["batch_sequences"] = static_cast<double>(schedule_.batch(step_ + 1));
  if (!result.first || result.skipped || result.left_out) return;
  const optim::NormOfBatch all{static_cast<double>(result.work.tokens), result.gradient_norm};
  const bool grows = ramp_.measured(step_ + 1, schedule_.batch(step_ + 1), *result.first, all).has_value();
  if (const auto tokens = ramp_.critical_batch()) result.metrics["critical_batch_tokens"] = *tokens;
  if (grows) set_growth();
}

void Trainer::tell_growth() {
  const auto& grown = ramp_.grown();
  if (grown.empty() || grown.back().first_step != step_ + 1) return;
  events_.write(observe::BatchGrowth{.step = step_,
                                     .batch = grown.back().batch,
                                     .batch_before = schedule_.batch(step_),
                                     .critical_batch_tokens = ramp_.critical_batch().value_or(0)});
}

}  // namespace longhaul::train
