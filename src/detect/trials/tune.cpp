#include "detect/trials/tune.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/progress.h"
#include "base/threads/parallel.h"
#include "detect/minder/agreement.h"

namespace longhaul::detect {
namespace {

constexpr double kShares[] = {.5, .6, .7, .8, .9, .95};
constexpr double kDistances[] = {.01, .02, .03, .05, .08, .12, .2, .3, .5, .8, 1.2, 2, 3, 5};

// Complete traces that were made before.
class StoredTraces : public TraceSource {
 public:
  explicit StoredTraces(const std::vector<Trace>& traces) : traces_(traces) {}
  const Trace* deciding(size_t channel, int32_t peers, const Rule&) override { return of(channel, peers); }
  const Trace* ending_in(size_t channel, int32_t peers, int64_t, int64_t) override {
    return of(channel, peers);
  }

 private:
  const Trace* of(size_t channel, int32_t peers) const {
    const auto found = std::ranges::find_if(
        traces_, [&](const Trace& trace) { return trace.channel == channel && trace.peers == peers; });
    return found == traces_.end() ? nullptr : &*found;
  }
  const std::vector<Trace>& traces_;
};

using FirstAlerts = std::vector<std::vector<std::optional<Alert>>>;  // [case][channel]

std::optional<Alert> first_alert(const CaseTraces& from, const Channel& channel, size_t at,
                                 const std::vector<Rule>& rules, const DetectOptions& options) {
  StoredTraces source(from.traces);
  for (int32_t peers = 0; peers < static_cast<int32_t>(from.about.classes.size()); ++peers) {
    const Trace* trace = source.deciding(at, peers, rules[at]);
    if (trace == nullptr) continue;
    const std::vector<Alarm> alarms = agreed_alarms(from.about, *trace, rules, options, source);
    if (!alarms.empty()) return alert_of(from.about, channel, *trace, alarms.front());
  }
  return {};
}

bool has_large_class(const Pull& about, const DetectOptions& options, size_t channels, const Rule& rule) {
  for (size_t peers = 0; peers < about.classes.size(); ++peers) {
    const auto machines =
        std::count(about.class_of.begin(), about.class_of.end(), static_cast<int32_t>(peers));
    if (needs_agreement(options, machines, channels, rule)) return true;
  }
  return false;
}

constexpr size_t kAll = std::numeric_limits<size_t>::max();

// After a change of the rule of one channel, or of all. If metrics must agree, the alerts of every channel
// depend on it, else only its own.
void find_alerts(FirstAlerts& found, const std::vector<CaseTraces>& cases,
                 const std::vector<Channel>& channels, const std::vector<Rule>& rules,
                 const DetectOptions& options, size_t changed) {
  found.resize(cases.size());
  parallel_for(0, static_cast<int64_t>(cases.size()), 4, [&](int64_t begin, int64_t end) {
    for (auto c = static_cast<size_t>(begin); c < static_cast<size_t>(end); ++c) {
      found[c].resize(channels.size());
      const bool all =
          changed == kAll || has_large_class(cases[c].about, options, channels.size(), rules.front());
      for (size_t k = 0; k < channels.size(); ++k) {
        if (all || k == changed) found[c][k] = first_alert(cases[c], channels[k], k, rules, options);
      }
    }
  });
}

double f1_of(const std::vector<CaseTraces>& cases, const FirstAlerts& found, const DetectOptions& options) {
  Tally tally;
  for (size_t c = 0; c < cases.size(); ++c) {
    std::vector<Alert> alerts = cases[c].silent;
    for (size_t k = 0; alerts.empty() && k < found[c].size(); ++k) {
      if (found[c][k]) alerts.push_back(*found[c][k]);
    }
    for (const Verdict& verdict :
         verdicts_of(cases[c].faults, cases[c].about.machines, alerts, {}, options.continuity_s))
      tally.add(verdict);
  }
  return tally.f1();
}

}  // namespace

CaseTraces traces_of(const LabelledCase& from, const std::vector<Channel>& channels,
                     const DetectOptions& options) {
  CaseTraces result{.about = {.machines = from.pull.machines,
                              .class_of = from.pull.class_of,
                              .classes = from.pull.classes,
                              .first_s = from.pull.first_s},
                    .faults = from.faults};
  result.silent = silent_machines(from.pull, silences(from.pull, options.silent_s));
  for (size_t c = 0; c < channels.size(); ++c) {
    if (places_in(from.pull, channels[c]).empty()) continue;
    for (size_t peers = 0; peers < from.pull.classes.size(); ++peers)
      result.traces.push_back(
          trace_of(from.pull, channels[c], c, static_cast<int32_t>(peers), options.distance,
                   followed_of(options, from.pull.class_of, static_cast<int32_t>(peers))));
  }
  return result;
}

std::vector<Rule> rules_of(const std::vector<Threshold>& thresholds, const DetectOptions& options) {
  std::vector<Rule> rules;
  for (const Threshold& threshold : thresholds) rules.push_back(rule_of(threshold, options));
  return rules;
}

Tuned tune(const std::vector<CaseTraces>& cases, const std::vector<Channel>& channels,
           const DetectOptions& options) {
  Tuned best{.f1 = -1};
  FirstAlerts kept, tried;
  for (const double share : kShares) {
    for (const double distance : kDistances) {
      const std::vector<Threshold> thresholds(channels.size(), {share, distance});
      find_alerts(tried, cases, channels, rules_of(thresholds, options), options, kAll);
      const double f1 = f1_of(cases, tried, options);
      if (f1 <= best.f1) continue;
      best = {thresholds, f1};
      kept = tried;
    }
  }
  for (size_t k = 0; channels.size() > 1 && k < channels.size(); ++k) {
    for (const double share : kShares) {
      for (const double distance : kDistances) {
        std::vector<Threshold> thresholds = best.thresholds;
        thresholds[k] = {share, distance};
        tried = kept;
        find_alerts(tried, cases, channels, rules_of(thresholds, options), options, k);
        const double f1 = f1_of(cases, tried, options);
        if (f1 <= best.f1) continue;
        best = {thresholds, f1};
        std::swap(kept, tried);
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
    for (const size_t metric : models.metrics) {  // channels are in the order of priority
      const auto at = std::find_if(channels.begin(), channels.end(),
                                   [&](const Channel& channel) { return channel.metrics.front() == metric; });
      list.push_back(tuned.thresholds[static_cast<size_t>(at - channels.begin())]);
    }
  }
}

}  // namespace longhaul::detect
