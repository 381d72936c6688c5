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

}  // namespace longhaul::detect
