#include "detect/minder/agreement.h"

#include <algorithm>

namespace longhaul::detect {
namespace {

bool any_agrees(const Pull& about, const Trace& trace, const std::vector<Rule>& rules, TraceSource& source,
                const Alarm& alarm) {
  for (size_t c = 0; c < rules.size(); ++c) {
    if (c == trace.channel) continue;
    const int64_t end = alarm.last + trace.window - 1, needed = agreeing_windows(rules[c]) + rules[c].gap;
    const Trace* other = source.ending_in(c, trace.peers, end, needed);
    if (other == nullptr) continue;
    // Windows of two channels that end in the same second.
    const int64_t last = end - other->window + 1;
    if (last < 0 || last >= other->windows) continue;
    Continuity continuity(rules[c], other->followed, about.count());
    for (int64_t window = std::max<int64_t>(0, last - needed + 1); window <= last; ++window)
      continuity.next(window, other->at(window));
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

std::vector<Alarm> agreed_alarms(const Pull& about, const Trace& trace, const std::vector<Rule>& rules,
                                 const DetectOptions& options, TraceSource& source) {
  const Rule& rule = rules[trace.channel];
  std::vector<Alarm> alarms = alarms_of(trace, rule, about.count());
  const auto machines = std::count(about.class_of.begin(), about.class_of.end(), trace.peers);
  if (alarms.empty() || !needs_agreement(options, machines, rules.size(), rule)) return alarms;
  std::erase_if(alarms, [&](const Alarm& alarm) { return !any_agrees(about, trace, rules, source, alarm); });
  for (const Alarm& alone : alarms_of(trace, alone_rule(rule), about.count())) {
    const bool told = std::ranges::any_of(alarms, [&](const Alarm& each) {
      return each.machine == alone.machine && each.first == alone.first;
    });
    if (!told) alarms.push_back(alone);
  }
  std::ranges::stable_sort(alarms, {}, &Alarm::last);
  return alarms;
}

}  // namespace longhaul::detect
