#include "detect/agreement.h"

#include <algorithm>
#include <numeric>

namespace longhaul::detect {
namespace {

bool any_agrees(const Pull& pull, const std::vector<Channel>& channels, const Trace& trace, const std::vector<Rule>& rules,
                const DetectOptions& options, const Alarm& alarm) {
  for (size_t c = 0; c < channels.size(); ++c) {
    if (c == trace.channel || places_in(pull, channels[c]).empty()) continue;
    Trace other = empty_trace(pull, channels[c], c, trace.peers, trace.followed);
    // Windows of two channels that end in the same second.
    const int64_t last = alarm.last + trace.window - other.window;
    const int64_t first = std::max<int64_t>(0, last - agreeing_windows(rules[c]) - rules[c].gap + 1);
    if (last < 0 || last >= other.windows) continue;
    std::vector<int64_t> windows(static_cast<size_t>(last - first + 1));
    std::iota(windows.begin(), windows.end(), first);
    score_windows(other, pull, channels[c], options.distance, windows);
    Continuity continuity(rules[c], other.followed, pull.count());
    for (const int64_t window : windows) continuity.next(window, other.at(window));
    if (continuity.length(alarm.machine, last) >= agreeing_windows(rules[c])) return true;
  }
  return false;
}

}  // namespace

bool needs_agreement(const DetectOptions& options, int64_t machines, size_t channels, const Rule& rule) {
  return options.agreement_from > 0 && machines > options.agreement_from && channels > 1 && rule.continuous;
}

int64_t agreeing_windows(const Rule& rule) { return rule.windows / 2; }

Rule alone_rule(const Rule& rule) {
  Rule longer = rule;
  longer.windows *= 2;
  return longer;
}

std::vector<Alarm> agreed_alarms(const Pull& pull, const std::vector<Channel>& channels, const Trace& trace, const std::vector<Rule>& rules,
                                 const DetectOptions& options) {
  const Rule& rule = rules[trace.channel];
  std::vector<Alarm> alarms = alarms_of(trace, rule, pull.count());
  const auto machines = std::count(pull.class_of.begin(), pull.class_of.end(), trace.peers);
  if (alarms.empty() || !needs_agreement(options, machines, channels.size(), rule)) return alarms;
  std::erase_if(alarms, [&](const Alarm& alarm) { return !any_agrees(pull, channels, trace, rules, options, alarm); });
  for (const Alarm& alone : alarms_of(trace, alone_rule(rule), pull.count())) {
    const bool told =
        std::ranges::any_of(alarms, [&](const Alarm& each) { return each.machine == alone.machine && each.first == alone.first; });
    if (!told) alarms.push_back(alone);
  }
  std::ranges::stable_sort(alarms, {}, &Alarm::last);
  return alarms;
}

}  // namespace longhaul::detect
