#include "observe/watch/latency.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace longhaul::observe {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastDeviation = 0.02;  // of the median: clocks and caches vary that much
constexpr double kStragglerScore = 0.95, kStragglerZ = 4;
constexpr int64_t kStragglerSteps = 8;

double median_of(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return kNone;
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The distance of each value from the median of its peers.
std::vector<double> distances(const std::vector<double>& values,
                              const std::vector<std::vector<size_t>>& peers) {
  std::vector<double> z(values.size(), kNone);
  for (const auto& members : peers) {
    std::vector<double> own, apart;
    for (const size_t i : members) own.push_back(values[i]);
    const double middle = median_of(own);
    for (const double value : own) apart.push_back(std::abs(value - middle));
    const double deviation = std::max(1.4826 * median_of(apart), kLeastDeviation * middle);
    for (const size_t i : members) {
      if (std::isfinite(values[i])) z[i] = deviation > 0 ? (values[i] - middle) / deviation : 0;
    }
  }
  return z;
}

double work_of(const std::map<std::string, double>& phases) {
  double sum = 0;
  bool any = false;
  for (const char* const phase : {"forward", "backward", "optimizer"}) {
    const auto found = phases.find(phase);
    if (found == phases.end()) continue;
    sum += found->second;
    any = true;
  }
  return any ? sum : kNone;
}

}  // namespace

std::vector<std::string> ordered_phases(std::vector<std::string> phases) {
  static const std::vector<std::string> kOrder = {"data",          "forward",   "backward",
                                                  "communication", "optimizer", "checkpoint",
                                                  "evaluation",    "task",      "idle"};
  const auto place = [](const std::string& phase) {
    return std::ranges::find(kOrder, phase) - kOrder.begin();
  };
  std::ranges::sort(phases, [&](const std::string& a, const std::string& b) {
    return std::pair(place(a), a) < std::pair(place(b), b);
  });
  return phases;
}

void LatencyWindow::add(int64_t rank, int64_t step, const std::map<std::string, double>& phase_seconds) {
  auto& steps = ranks_[rank];
  steps[step] = phase_seconds;
  // A run that went back to an earlier step starts its window again.
  steps.erase(steps.upper_bound(step), steps.end());
  while (static_cast<int64_t>(steps.size()) > most_steps_) steps.erase(steps.begin());
}

namespace {

using ByStep = std::map<int64_t, std::map<std::string, double>>;
using Ranks = std::map<int64_t, ByStep>;
using Peers = std::vector<std::vector<size_t>>;  // rows that are compared with each other

double mean_of(const ByStep& by_step, const std::string& phase) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& [step, seconds] : by_step) {
    const auto found = seconds.find(phase);
    if (found != seconds.end()) sum += found->second, ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : kNone;
}

void compare_phases(LatencyMap& map, const Ranks& ranks, const Peers& peers) {
  for (const std::string& phase : map.phases) {
    std::vector<double> means;
    for (const auto& row : map.rows) means.push_back(mean_of(ranks.at(row.rank), phase));
    const std::vector<double> z = distances(means, peers);
    for (size_t i = 0; i < map.rows.size(); ++i)
      map.rows[i].seconds.push_back(means[i]), map.rows[i].z.push_back(z[i]);
  }
}

void compare_work(LatencyMap& map, const Ranks& ranks, const Peers& peers) {
  std::vector<double> work;
  for (const auto& row : map.rows) {
    std::vector<double> each;
    for (const auto& [step, seconds] : ranks.at(row.rank)) each.push_back(work_of(seconds));
    work.push_back(median_of(each));
  }
  const std::vector<double> z = distances(work, peers);
  for (const auto& members : peers) {
    std::vector<double> own;
    for (const size_t i : members) own.push_back(work[i]);
    const double middle = median_of(own);
    for (const size_t i : members) {
      LatencyMap::Row& row = map.rows[i];
      row.work = work[i], row.work_z = z[i];
      row.score = work[i] > 0 ? middle / work[i] : 1;
      // It may have started later than others.
      const auto measured = static_cast<int64_t>(ranks.at(row.rank).size());
      row.straggler = row.score < kStragglerScore && row.work_z > kStragglerZ && measured >= kStragglerSteps;
    }
  }
}

void compare_steps(LatencyMap& map, const Ranks& ranks, const Peers& peers) {
  for (const auto& members : peers) {
    for (const int64_t step : map.steps) {
      std::vector<double> now;
      for (const size_t i : members) {
        const ByStep& by_step = ranks.at(map.rows[i].rank);
        const auto found = by_step.find(step);
        now.push_back(found == by_step.end() ? kNone : work_of(found->second));
      }
      const double usual = median_of(now);
      for (size_t i = 0; i < members.size(); ++i)
        map.rows[members[i]].work_by_step.push_back(usual > 0 ? now[i] / usual : kNone);
    }
  }
}

}  // namespace

LatencyMap LatencyWindow::map(const std::function<LatencyPlace(int64_t rank)>& place) const {
  LatencyMap map;
  std::set<std::string> phases;
  std::set<int64_t> steps;
  for (const auto& [rank, by_step] : ranks_) {
    map.rows.push_back({.rank = rank, .place = place(rank)});
    map.measured_steps = std::max(map.measured_steps, static_cast<int64_t>(by_step.size()));
    for (const auto& [step, seconds] : by_step) {
      steps.insert(step);
      for (const auto& [phase, value] : seconds) phases.insert(phase);
    }
  }
  while (static_cast<int64_t>(steps.size()) > most_steps_) steps.erase(steps.begin());
  map.steps.assign(steps.begin(), steps.end());
  map.phases = ordered_phases({phases.begin(), phases.end()});
  // Nodes in the order of their first ranks: node-2 before node-10.
  std::map<std::string, int64_t> first;
  for (const auto& row : map.rows) first.try_emplace(row.place.node, row.rank);
  std::ranges::stable_sort(map.rows, {}, [&](const LatencyMap::Row& row) {
    return std::pair(first.at(row.place.node), row.rank);
  });
  std::map<std::string, std::vector<size_t>> by_peers;
  for (size_t i = 0; i < map.rows.size(); ++i) by_peers[map.rows[i].place.peers].push_back(i);
  Peers peers;
  for (auto& [name, members] : by_peers) peers.push_back(members);
  compare_phases(map, ranks_, peers);
  compare_work(map, ranks_, peers);
  compare_steps(map, ranks_, peers);
  return map;
}

}  // namespace longhaul::observe
