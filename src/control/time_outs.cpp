#include "control/time_outs.h"

#include <algorithm>
#include <cmath>

namespace longhaul::control {
namespace {

bool comes_seldom(const std::string& phase) {
  return phase == "start" || phase == "load" || phase == "checkpoint" || phase == "evaluation" || phase == "idle";
}

}  // namespace

void ProgressTimeOuts::saw(const std::string& phase, double seconds) {
  if (!std::isfinite(seconds)) return;
  double& longest = seen_[phase];
  longest = std::max(longest, seconds);
}

double ProgressTimeOuts::limit_s(const std::string& phase) const {
  const auto seen = seen_.find(phase), known = known_.find(phase);
  if (seen == seen_.end() && known == known_.end() && comes_seldom(phase)) return policy_.first_step_s;
  const double longest = std::max(seen == seen_.end() ? 0 : seen->second, known == known_.end() ? 0 : known->second);
  return std::max(policy_.progress_floor_s, policy_.progress_factor * longest);
}

}  // namespace longhaul::control
