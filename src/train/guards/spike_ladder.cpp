#include "train/guards/spike_ladder.h"

#include <fmt/format.h>

#include <cmath>

namespace longhaul::train {

using recipe::OnSpike;

std::function<bool(double loss, double gradient_norm)> SpikeLadder::doubtful() const {
  if (options_.on_spike < OnSpike::kSkip) return {};
  return [this](double loss, double gradient_norm) { return watch_.judge(loss, gradient_norm).has_value(); };
}

bool SpikeLadder::roll_back_after(const StepResult& result, int64_t step, observe::EventWriter& events) {
  if (!watches()) return false;
  const auto spike = watch_.judge(result.loss, result.gradient_norm);
  const bool changed_nothing = result.skipped || result.left_out;
  if (!changed_nothing) watch_.add(result.loss, result.gradient_norm);
  if (spike && spike->finite) {
    events.write(
        observe::Alarm{.kind = "loss_spike",
                       .message = fmt::format("step {}: {}; {}", step, spike->text,
                                              changed_nothing ? "it changed nothing" : "it was applied")});
  }
  if (!changed_nothing || options_.on_spike != OnSpike::kRollBack) return false;
  return step - std::exchange(last_step_, step) < kSpikesTogether;
}

void SpikeLadder::remember(const std::vector<data::SkipEntry>& skips) {
  rollbacks_ = 0;
  rate_ = 1;
  for (const data::SkipEntry& skip : skips) {
    rollbacks_ += skip.by == "trainer" ? 1 : 0;
    rate_ *= skip.rate_factor;
  }
}

nlohmann::json SpikeLadder::facts() {
  const auto& state = watch_.state();
  return {{"spikes",
           {{"losses", state.losses},
            {"norms", state.norms},
            {"steps", state.steps},
            {"first_most", state.first_most},
            {"first_norm", state.first_norm},
            {"last_step", last_step_}}}};
}

void SpikeLadder::restore(const checkpoint::SavedFacts& facts) {
  watch_ = {};
  last_step_ = -kSpikesTogether;
  const auto saved = facts.state.find("spikes");
  if (saved == facts.state.end()) return;
  try {
    watch_.restore({.losses = saved->at("losses").get<std::vector<double>>(),
                    .norms = saved->at("norms").get<std::vector<double>>(),
                    .steps = saved->at("steps"),
                    .first_most = saved->at("first_most"),
                    .first_norm = saved->at("first_norm")});
    last_step_ = saved->at("last_step");
  } catch (const nlohmann::json::exception& problem) {
    throw Error({.code = ExitCode::kCheckpoint,
                 .what = "state.spikes of the checkpoint cannot be read",
                 .found = problem.what(),
                 .where = facts.where});
  }
}

}  // namespace longhaul::train
