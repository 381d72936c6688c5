#include "control/driver/time_outs.h"

#include <algorithm>
#include <cmath>

#include "observe/events/run_history.h"

namespace longhaul::control {
namespace {

bool comes_seldom(const std::string& phase) {
  return phase == "start" || phase == "load" || phase == "checkpoint" || phase == "evaluation" ||
         phase == ProgressTimeOuts::kBehindLastStep;
}

}  // namespace

void ProgressTimeOuts::saw(const std::string& phase, double seconds) {
  if (!std::isfinite(seconds)) return;
  double& longest = seen_[phase];
  longest = std::max(longest, seconds);
}

std::optional<double> ProgressTimeOuts::longest_s(const std::string& phase) const {
  const std::optional<double> seen = observe::metric(seen_, phase), known = observe::metric(known_, phase);
  if (!seen && !known) return std::nullopt;
  return std::max(seen.value_or(0), known.value_or(0));
}

double ProgressTimeOuts::limit_s(const std::string& phase) const {
  const std::optional<double> longest = longest_s(phase);
  if (!longest && comes_seldom(phase)) return policy_.first_step_s;
  return std::max(policy_.progress_floor_s, policy_.progress_factor * longest.value_or(0));
}

double ProgressTimeOuts::work_limit_s(const std::string& work, double allowed_s) const {
  const std::optional<double> longest = longest_s(kWork + work);
  return std::max(policy_.progress_floor_s, longest ? policy_.progress_factor * *longest : allowed_s);
}

double ProgressTimeOuts::task_limit_s(const std::string& phase, double allowed_s) const {
  const std::optional<double> longest = longest_s(kTask + phase);
  const double unseen_s = allowed_s > 0 ? allowed_s : policy_.first_step_s;
  return std::max(
      {policy_.progress_floor_s, allowed_s, longest ? policy_.progress_factor * *longest : unseen_s});
}

}  // namespace longhaul::control
