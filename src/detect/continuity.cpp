#include "detect/continuity.h"

namespace longhaul::detect {
namespace {

constexpr int64_t kBlock = 60;  // windows, without continuity

}  // namespace

int passing(const Candidate* best, int top, const Threshold& threshold, const Candidate*& set) {
  for (int k = top; k >= 1; --k) {
    set = best + candidates_of(k - 1);
    int passed = 0;
    for (int f = 0; f < k; ++f) {
      passed += set[f].machine >= 0 && static_cast<double>(set[f].share) > threshold.share &&
                static_cast<double>(set[f].distance) >= threshold.distance;
    }
    if (passed == k) return k;
  }
  return 0;
}

std::vector<Alarm> Continuity::next(int64_t window, const Candidate* best) {
  const Candidate* set = nullptr;
  const int count = passing(best, top_, rule_.threshold, set);
  std::vector<Alarm> alarms;
  for (int f = 0; f < count; ++f) {
    Run& run = runs_[static_cast<size_t>(set[f].machine)];
    const bool goes_on = run.first >= 0 && (rule_.continuous ? window - run.last <= rule_.gap + 1 : window / kBlock == run.first / kBlock);
    if (!goes_on) run = {.first = window};
    run.last = window, ++run.hits, run.sum += static_cast<double>(set[f].share);
    const bool long_enough = rule_.continuous ? run.last - run.first + 1 >= rule_.windows : 2 * run.hits >= kBlock;
    if (!long_enough || run.told) continue;
    run.told = true;
    alarms.push_back({set[f].machine, run.first, run.last, run.sum / static_cast<double>(run.hits)});
  }
  return alarms;
}

std::vector<Alarm> alarms_of(const Trace& trace, const Rule& rule, int64_t machines) {
  Continuity continuity(rule, trace.top, machines);
  std::vector<Alarm> all;
  for (int64_t w = 0; w < trace.windows; ++w) {
    for (const Alarm& alarm : continuity.next(w, trace.at(w))) all.push_back(alarm);
  }
  return all;
}

Trace trace_for(const Pull& pull, const Channel& channel, size_t channel_at, int32_t peers, Distance distance, int top, const Rule& rule) {
  Trace trace = empty_trace(pull, channel, channel_at, peers, top);
  const int64_t block = rule.gap + 1, apart = rule.windows - block + 1;  // a run holds a whole block wherever it begins
  if (!rule.continuous || apart <= block) return trace_of(pull, channel, channel_at, peers, distance, top);
  if (trace.windows < rule.windows) return trace;  // no run fits
  std::vector<int64_t> begins, first;
  for (int64_t begin = 0; begin + block <= trace.windows; begin += apart) begins.push_back(begin);
  for (const int64_t begin : begins) {
    for (int64_t w = begin; w < begin + block; ++w) first.push_back(w);
  }
  score_windows(trace, pull, channel, distance, first);
  const auto passes = [&](int64_t begin) {
    const Candidate* set = nullptr;
    for (int64_t w = begin; w < begin + block; ++w) {
      if (passing(trace.at(w), top, rule.threshold, set) > 0) return true;
    }
    return false;
  };
  std::vector<int64_t> rest;
  const auto between = [&](int64_t begin, int64_t end) {
    for (int64_t w = begin; w < end; ++w) rest.push_back(w);
  };
  // Windows beside a block that passes, up to its neighbours on both sides.
  for (size_t i = 0; i < begins.size(); ++i) {
    const bool here = passes(begins[i]), before = i > 0 && passes(begins[i - 1]);
    if (here || before) between(i > 0 ? begins[i - 1] + block : 0, begins[i]);
  }
  if (passes(begins.back())) between(begins.back() + block, trace.windows);
  score_windows(trace, pull, channel, distance, rest);
  return trace;
}

}  // namespace longhaul::detect
