#include "detect/samples/continuity.h"

#include <algorithm>
#include <set>
#include <span>

namespace longhaul::detect {
namespace {

constexpr int64_t kBlock = 60;  // windows, without continuity

}  // namespace

bool passes(const Candidate& candidate, const Threshold& threshold) {
  return candidate.machine >= 0 && static_cast<double>(candidate.share) > threshold.share &&
         static_cast<double>(candidate.distance) >= threshold.distance;
}

bool Continuity::goes_on(const Run& run, int64_t window) const {
  return run.first >= 0 &&
         (rule_.continuous ? window - run.last <= rule_.gap + 1 : window / kBlock == run.first / kBlock);
}

int64_t Continuity::length(int32_t machine, int64_t window) const {
  const Run& run = runs_[static_cast<size_t>(machine)];
  return goes_on(run, window) ? run.last - run.first + 1 : 0;
}

std::vector<Alarm> Continuity::next(int64_t window, const Candidate* best) {
  std::vector<Alarm> alarms;
  for (const Candidate& candidate : std::span(best, static_cast<size_t>(followed_))) {
    if (!passes(candidate, rule_.threshold)) continue;
    Run& run = runs_[static_cast<size_t>(candidate.machine)];
    if (!goes_on(run, window)) run = {.first = window};
    run.last = window, ++run.hits, run.sum += static_cast<double>(candidate.share);
    const bool long_enough =
        rule_.continuous ? run.last - run.first + 1 >= rule_.windows : 2 * run.hits >= kBlock;
    if (!long_enough || run.told) continue;
    run.told = true;
    alarms.push_back({candidate.machine, run.first, run.last, run.sum / static_cast<double>(run.hits)});
  }
  return alarms;
}

std::vector<Alarm> alarms_of(const Trace& trace, const Rule& rule, int64_t machines) {
  Continuity continuity(rule, trace.followed, machines);
  std::vector<Alarm> all;
  for (int64_t w = 0; w < trace.windows; ++w) {
    for (const Alarm& alarm : continuity.next(w, trace.at(w))) all.push_back(alarm);
  }
  return all;
}

Trace trace_for(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, Distance distance,
                int followed, const Rule& rule) {
  Trace trace = empty_trace(pull, channel, channel_at, peers, followed);
  // A run contains two whole blocks wherever it begins.
  const int64_t block = rule.gap + 1, apart = (rule.windows - block + 1) / 2;
  if (!rule.continuous || apart <= block)
    return trace_of(pull, channel, channel_at, peers, distance, followed);
  if (trace.windows < rule.windows) return trace;  // no run fits
  std::vector<int64_t> begins, first;
  for (int64_t begin = 0; begin + block <= trace.windows; begin += apart) begins.push_back(begin);
  for (const int64_t begin : begins) {
    for (int64_t w = begin; w < begin + block; ++w) first.push_back(w);
  }
  score_windows(trace, pull, channel, distance, first);
  std::vector<std::set<int32_t>> passed(begins.size());
  for (size_t i = 0; i < begins.size(); ++i) {
    for (int64_t w = begins[i]; w < begins[i] + block; ++w) {
      for (const Candidate& candidate : std::span(trace.at(w), static_cast<size_t>(followed))) {
        if (passes(candidate, rule.threshold)) passed[i].insert(candidate.machine);
      }
    }
  }
  // wanted[i]: the windows before block i, from the block before it or the first window; the last entry:
  // those after all blocks.
  std::vector<bool> wanted(begins.size() + 1, false);
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    const bool both =
        std::ranges::any_of(passed[i], [&](int32_t machine) { return passed[i + 1].contains(machine); });
    if (both) wanted[i] = wanted[i + 1] = wanted[i + 2] = true;
  }
  std::vector<int64_t> rest;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int64_t begin = i == 0 ? 0 : begins[i - 1] + block,
                  end = i < begins.size() ? begins[i] : trace.windows;
    for (int64_t w = begin; wanted[i] && w < end; ++w) rest.push_back(w);
  }
  score_windows(trace, pull, channel, distance, rest);
  return trace;
}

}  // namespace longhaul::detect
