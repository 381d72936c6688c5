#include "detect/tune.h"

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "base/progress.h"
#include "detect/agreement.h"

namespace longhaul::detect {
namespace {

constexpr double kShares[] = {.5, .6, .7, .8, .9, .95};
constexpr double kDistances[] = {.01, .02, .03, .05, .08, .12, .2, .3, .5, .8, 1.2, 2, 3, 5};

Rule rule_with(const Threshold& threshold, const DetectOptions& options) {
  return {.threshold = threshold, .windows = options.continuity_s, .gap = options.gap_s, .continuous = options.continuous};
}

// The first alert of one channel, of any class.
std::optional<Alert> first_alert(const CaseTraces& from, const Channel& channel, size_t at, const Threshold& threshold,
                                 const DetectOptions& options) {
  const Rule rule = rule_with(threshold, options);
  std::optional<Alert> best;
  for (const Trace& trace : from.traces) {
    if (trace.channel != at) continue;
    for (const Alarm& alarm : alarms_of(trace, rule, from.about.count())) {
      if (!best) best = alert_of(from.about, channel, trace, alarm);
    }
  }
  return best;
}

using AlertsOfChannel = std::vector<std::optional<Alert>>;  // a case each

AlertsOfChannel alerts_of(const std::vector<CaseTraces>& cases, const std::vector<Channel>& channels, size_t at, const Threshold& threshold,
                          const DetectOptions& options) {
  AlertsOfChannel alerts(cases.size());
  parallel_for(0, static_cast<int64_t>(cases.size()), 4, [&](int64_t begin, int64_t end) {
    for (auto c = static_cast<size_t>(begin); c < static_cast<size_t>(end); ++c)
      alerts[c] = first_alert(cases[c], channels[at], at, threshold, options);
  });
  return alerts;
}

double f1_of(const std::vector<CaseTraces>& cases, const std::vector<AlertsOfChannel>& by_channel, const DetectOptions& options) {
  Tally tally;
  for (size_t c = 0; c < cases.size(); ++c) {
    std::vector<Alert> alerts = cases[c].silent;
    for (size_t k = 0; alerts.empty() && k < by_channel.size(); ++k) {
      if (by_channel[k][c]) alerts.push_back(*by_channel[k][c]);
    }
    for (const Verdict& verdict : verdicts_of(cases[c].faults, cases[c].about.machines, alerts, {}, options.continuity_s))
      tally.add(verdict);
  }
  return tally.f1();
}

}  // namespace

CaseTraces traces_of(const LabelledCase& from, const std::vector<Channel>& channels, const DetectOptions& options) {
  CaseTraces result{.about = {.machines = from.pull.machines, .classes = from.pull.classes, .first_s = from.pull.first_s},
                    .faults = from.faults};
  result.silent = silent_machines(from.pull, silences(from.pull, options.silent_s));
  for (size_t c = 0; c < channels.size(); ++c) {
    if (places_in(from.pull, channels[c]).empty()) continue;
    for (size_t peers = 0; peers < from.pull.classes.size(); ++peers)
      result.traces.push_back(trace_of(from.pull, channels[c], c, static_cast<int32_t>(peers), options.distance,
                                       followed_of(options, from.pull.class_of, static_cast<int32_t>(peers))));
  }
  return result;
}

std::vector<Alert> decide(const LabelledCase& of, const std::vector<Channel>& channels, const std::vector<Threshold>& thresholds,
                          const DetectOptions& options) {
  std::vector<Alert> silent = silent_machines(of.pull, silences(of.pull, options.silent_s));
  if (!silent.empty()) return silent;
  std::vector<Rule> rules;
  for (const Threshold& threshold : thresholds) rules.push_back(rule_with(threshold, options));
  for (size_t c = 0; c < channels.size(); ++c) {
    if (places_in(of.pull, channels[c]).empty()) continue;
    for (int32_t peers = 0; peers < static_cast<int32_t>(of.pull.classes.size()); ++peers) {
      const Trace trace =
          trace_for(of.pull, channels[c], c, peers, options.distance, followed_of(options, of.pull.class_of, peers), rules[c]);
      const std::vector<Alarm> alarms = agreed_alarms(of.pull, channels, trace, rules, options);
      if (!alarms.empty()) return {alert_of(of.pull, channels[c], trace, alarms.front())};
    }
  }
  return {};
}

Tuned tune(const std::vector<CaseTraces>& cases, const std::vector<Channel>& channels, const DetectOptions& options) {
  Tuned best{.f1 = -1};
  std::vector<AlertsOfChannel> kept;
  for (const double share : kShares) {
    for (const double distance : kDistances) {
      std::vector<AlertsOfChannel> alerts;
      for (size_t k = 0; k < channels.size(); ++k) alerts.push_back(alerts_of(cases, channels, k, {share, distance}, options));
      const double f1 = f1_of(cases, alerts, options);
      if (f1 <= best.f1) continue;
      best = {std::vector<Threshold>(channels.size(), {share, distance}), f1};
      kept = std::move(alerts);
    }
  }
  for (size_t k = 0; channels.size() > 1 && k < channels.size(); ++k) {
    for (const double share : kShares) {
      for (const double distance : kDistances) {
        AlertsOfChannel other = alerts_of(cases, channels, k, {share, distance}, options);
        kept[k].swap(other);
        const double f1 = f1_of(cases, kept, options);
        if (f1 > best.f1) {
          best.f1 = f1, best.thresholds[k] = {share, distance};
        } else {
          kept[k].swap(other);
        }
      }
    }
  }
  return best;
}

void tune_models(Models& models, const std::vector<LabelledCase>& cases, std::span<const Variant> variants) {
  Progress progress("thresholds", static_cast<int64_t>(variants.size() * cases.size()));
  for (const Variant variant : variants) {
    const DetectOptions options{.variant = variant};
    const std::vector<Channel> channels = models.channels(variant, order_of(models, options));
    std::vector<CaseTraces> traces;
    for (const LabelledCase& each : cases) {
      traces.push_back(traces_of(each, channels, options));
      progress.advance(1);
    }
    const Tuned tuned = tune(traces, channels, options);
    std::vector<Threshold>& list = models.thresholds[std::string(name_of(variant))];
    list.clear();
    if (channels.size() == 1 && models.metrics.size() > 1) {
      list = tuned.thresholds;
      continue;
    }
    for (const size_t metric : models.metrics) {  // channels stand in the order of priority
      const auto at =
          std::find_if(channels.begin(), channels.end(), [&](const Channel& channel) { return channel.metrics.front() == metric; });
      list.push_back(tuned.thresholds[static_cast<size_t>(at - channels.begin())]);
    }
  }
}

}  // namespace longhaul::detect
