#include "control/driver/slow_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "observe/events/run_history.h"

namespace longhaul::control {

void SlowRanks::see(const std::string& node, const RankBeat& beat) {
  if (beat.generation < generation_) return;
  if (beat.generation > generation_) {
    generation_ = beat.generation;
    nodes_.clear();
    by_step_.clear();
    lost_s_.clear();
    looked_at_ = 0;
  }
  nodes_[beat.rank] = node;
  if (beat.step < 1 || beat.step == beat.resumed_step || beat.phase_seconds.empty()) return;
  const auto seconds = [&](const char* phase) {
    return observe::metric(beat.phase_seconds, phase).value_or(0);
  };
  by_step_[beat.step][beat.rank] = {
      .seconds = beat.step_seconds,
      .times = {.compute_s = seconds("forward") + seconds("backward") + seconds("optimizer"),
                .data_s = seconds("data"),
                .wait_s = seconds("communication"),
                .work = {}}};
  while (by_step_.size() > kSteps) by_step_.erase(by_step_.begin());
}

detect::StepTimes SlowRanks::times() const {
  detect::StepTimes times;
  for (const auto& [rank, node] : nodes_)
    times.ranks.push_back({.rank = rank, .host = node, .peers = stage_of_(rank, std::ssize(nodes_))});
  for (const auto& [number, told] : by_step_) {
    if (told.size() != nodes_.size()) continue;
    detect::TimedStep& step = times.steps.emplace_back();
    step.step = number;
    for (const auto& [rank, one] : told) {
      step.ranks.push_back(one.times);
      step.step_s = std::max(step.step_s, one.seconds);
    }
  }
  return times;
}

std::vector<SlowRank> SlowRanks::look() {
  std::vector<SlowRank> found;
  if (nodes_.size() < 2 || by_step_.empty()) return found;
  const detect::StepTimes seen = times();
  if (seen.steps.empty()) return found;
  const int64_t newest = seen.steps.back().step, since = std::max(looked_at_, seen.steps.front().step - 1);
  looked_at_ = newest;
  for (const detect::Straggler& each : detect::find_stragglers(seen).stragglers) {
    if (each.cause != detect::Straggler::Cause::kSlow) continue;
    const auto [lost, first] = lost_s_.try_emplace(each.rank, 0);
    lost->second += each.lost_s * static_cast<double>(newest - since);
    found.push_back({each.rank, nodes_.at(each.rank),
                     fmt::format("rank {} computes {:.0f} % longer than its peers, in {:.0f} % of the steps",
                                 each.rank, 100 * each.slower, 100 * each.steps),
                     first, lost->second});
  }
  return found;
}

}  // namespace longhaul::control
