#include "detect/minder/detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/text.h"
#include "detect/minder/agreement.h"

namespace longhaul::detect {
namespace {

std::string_view metric_text(size_t metric) { return metrics()[metric].name; }

// The classes with enough machines.
std::vector<int32_t> comparable_classes(const Pull& pull, CallReport& report) {
  std::vector<int64_t> sizes(pull.classes.size(), 0);
  for (const int32_t peers : pull.class_of) ++sizes[static_cast<size_t>(peers)];
  std::vector<int32_t> good;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= kFewestPeers) {
      good.push_back(static_cast<int32_t>(i));
    } else if (sizes[i] > 0) {
      report.not_judged.push_back(fmt::format("class {} has {}: of fewer than {} none can be told apart",
                                              printable(pull.classes[i]), counted(sizes[i], "machine"),
                                              kFewestPeers));
    }
  }
  if (!good.empty()) return good;
  throw Error(
      {.code = ExitCode::kData,
       .what = "too few machines to compare",
       .expected = fmt::format("at least {} that do the same work", kFewestPeers),
       .found = fmt::format("{}{}", counted(pull.count(), "machine"),
                            pull.classes.size() > 1 ? ", in classes of fewer" : ""),
       .hint = "of three machines one is always furthest: look at their metrics side by side instead"});
}

constexpr int64_t kToldSeconds = 8;  // the length of a denoiser's window

void say_what_is_missing(const Pull& pull, CallReport& report) {
  for (const size_t metric : pull.missing)
    report.not_judged.push_back(fmt::format("{} has no samples", metric_text(metric)));
  for (size_t m = 0; m < pull.metrics.size(); ++m) {
    int64_t empty = 0;
    for (int64_t s = 0; s < pull.seconds; ++s) {
      const float* row = pull.row(m, s);
      empty += std::all_of(row, row + pull.count(), [](float value) { return std::isnan(value); });
    }
    if (10 * empty > pull.seconds)
      report.not_judged.push_back(fmt::format("{} has no samples in {} of {} seconds",
                                              metric_text(pull.metrics[m]), empty, pull.seconds));
  }
  for (const DeadCounter& each : pull.dead_counters) {
    if (each.seconds < kToldSeconds) continue;  // a single wrong sample is filled in like a missing one
    report.not_judged.push_back(fmt::format(
        "{} of {} stood at 0 in {} while its GPUs were fully busy: the counter is dead, not the machine",
        metric_text(each.metric), printable(pull.machines[static_cast<size_t>(each.machine)]),
        counted(each.seconds, "second")));
  }
  for (const size_t metric : constant_metrics(pull))
    report.not_judged.push_back(
        fmt::format("{} has one value on all machines throughout: it tells nothing", metric_text(metric)));
}

bool has_all(const Pull& pull, const Channel& channel) { return !places_in(pull, channel).empty(); }

bool holds(const std::vector<Alert>& alerts, const std::string& machine) {
  return std::any_of(alerts.begin(), alerts.end(),
                     [&](const Alert& alert) { return alert.machine == machine; });
}

// Number of windows in which not enough machines had all samples, scored or not.
int64_t windows_of_too_few(const Pull& pull, const Channel& channel, int32_t peers, const Trace& trace) {
  const std::vector<size_t> places = places_in(pull, channel);
  // The first second after the last missing sample.
  std::vector<int64_t> since(static_cast<size_t>(pull.count()), 0);
  int64_t windows = 0;
  for (int64_t s = 0; s < pull.seconds; ++s) {
    int64_t whole = 0;
    for (size_t i = 0; i < since.size(); ++i) {
      for (const size_t place : places) {
        if (std::isnan(pull.row(place, s)[i])) since[i] = s + 1;
      }
      whole += pull.class_of[i] == peers && s - since[i] + 1 >= trace.window;
    }
    windows += s + 1 >= trace.window && whole < kFewestPeers;
  }
  return windows;
}

// Scores the requested windows.
class LazyTraces : public TraceSource {
 public:
  LazyTraces(const Pull& pull, const std::vector<Channel>& channels, const DetectOptions& options)
      : pull_(pull), channels_(channels), options_(options) {}

  const Trace* deciding(size_t channel, int32_t peers, const Rule& rule) override {
    if (places_in(pull_, channels_[channel]).empty()) return nullptr;
    deciding_ =
        trace_for(pull_, channels_[channel], channel, peers, options_.distance, followed(peers), rule);
    return &deciding_;
  }
  const Trace* ending_in(size_t channel, int32_t peers, int64_t end, int64_t count) override {
    if (places_in(pull_, channels_[channel]).empty()) return nullptr;
    ending_ = empty_trace(pull_, channels_[channel], channel, peers, followed(peers));
    std::vector<int64_t> windows;
    const int64_t last = std::min(end - ending_.window + 1, ending_.windows - 1);
    for (int64_t w = std::max<int64_t>(0, last - count + 1); w <= last; ++w) windows.push_back(w);
    score_windows(ending_, pull_, channels_[channel], options_.distance, windows);
    return &ending_;
  }

 private:
  int followed(int32_t peers) const { return followed_of(options_, pull_.class_of, peers); }

  const Pull& pull_;
  const std::vector<Channel>& channels_;
  const DetectOptions& options_;
  Trace deciding_, ending_;
};

void look_at(const Pull& pull, const Channel& channel, size_t at, const std::vector<int32_t>& classes,
             const std::vector<Rule>& rules, const DetectOptions& options, TraceSource& source,
             CallReport& report) {
  for (const int32_t peers : classes) {
    const Trace& trace = *source.deciding(at, peers, rules[at]);
    report.windows += trace.windows, report.scored += trace.scored;
    const int64_t too_few = windows_of_too_few(pull, channel, peers, trace);
    for (const Alarm& alarm : agreed_alarms(pull, trace, rules, options, source)) {
      const Alert alert = alert_of(pull, channel, trace, alarm);
      if (static_cast<int>(report.alerts.size()) < options.top && !holds(report.alerts, alert.machine))
        report.alerts.push_back(alert);
    }
    if (2 * too_few > trace.windows && trace.windows > 0) {
      report.not_judged.push_back(fmt::format(
          "{}: in {} of {} windows fewer than {} machines of class {} had data", channel.name, too_few,
          trace.windows, kFewestPeers, printable(pull.classes[static_cast<size_t>(peers)])));
    }
  }
}

std::vector<Rule> rules_in(const Models& models, const std::vector<Channel>& channels,
                           const DetectOptions& options) {
  std::vector<Rule> rules;
  for (const Channel& channel : channels)
    rules.push_back(rule_of(models.threshold(options.variant, channel), options));
  return rules;
}

}  // namespace

std::vector<size_t> order_of(const Models& models, const DetectOptions& options) {
  const std::vector<size_t> wanted = options.metrics.empty() ? models.metrics : options.metrics;
  std::vector<size_t> order;
  if (options.priority == Priority::kPaper) {
    order = wanted;
    std::sort(order.begin(), order.end());  // the table of metrics is in the paper's order
    return order;
  }
  if (options.priority == Priority::kTree && models.in_tree == 0) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the models have no decision tree",
                 .expected = "training data with truth.json, from which the order of metrics is learnt",
                 .found = "models trained without",
                 .where = "--priority tree"});
  }
  const size_t most = options.priority == Priority::kTree ? models.in_tree : models.priority.size();
  for (size_t i = 0; i < most; ++i) {
    if (std::find(wanted.begin(), wanted.end(), models.priority[i]) != wanted.end())
      order.push_back(models.priority[i]);
  }
  for (const size_t metric : wanted) {  // those without a model are refused where channels are made
    if (options.priority != Priority::kTree && std::find(order.begin(), order.end(), metric) == order.end())
      order.push_back(metric);
  }
  return order;
}

int followed_of(const DetectOptions& options, const std::vector<int32_t>& class_of, int32_t peers) {
  const auto machines = std::count(class_of.begin(), class_of.end(), peers);
  const auto by_size = static_cast<int>(std::clamp<std::ptrdiff_t>(machines / 8, 1, 16));
  return std::max(options.top, options.followed > 0 ? options.followed : by_size);
}

Rule rule_of(const Threshold& tuned, const DetectOptions& options) {
  Rule rule{.threshold = tuned,
            .windows = options.continuity_s,
            .gap = options.gap_s,
            .continuous = options.continuous};
  if (options.share) rule.threshold.share = *options.share;
  if (options.distance_threshold) rule.threshold.distance = *options.distance_threshold;
  return rule;
}

Alert alert_of(const Pull& pull, const Channel& channel, const Trace& trace, const Alarm& alarm) {
  return {.machine = pull.machines[static_cast<size_t>(alarm.machine)],
          .metric = channel.name,
          .peers = pull.classes[static_cast<size_t>(trace.peers)],
          .first_s = pull.first_s + static_cast<double>(alarm.first),
          .raised_s = pull.first_s + static_cast<double>(alarm.last + trace.window - 1),
          .score = alarm.score};
}

std::vector<Alert> silent_machines(const Pull& pull, const std::vector<Silence>& silent) {
  std::map<int32_t, std::pair<size_t, double>> by_machine;  // metrics that ended, the last end
  for (const Silence& each : silent) {
    auto& [count, since] = by_machine[each.machine];
    ++count, since = std::max(since, each.since_s);
  }
  std::vector<Alert> alerts;
  for (const auto& [machine, what] : by_machine) {
    if (what.first < pull.metrics.size()) continue;
    alerts.push_back({.machine = pull.machines[static_cast<size_t>(machine)],
                      .metric = kNoData,
                      .peers = pull.classes[static_cast<size_t>(pull.class_of[static_cast<size_t>(machine)])],
                      .first_s = what.second,
                      .raised_s = pull.first_s + static_cast<double>(pull.seconds - 1),
                      .score = 1});
  }
  return alerts;
}

CallReport call(const Pull& pull, const Models& models, const DetectOptions& options) {
  const std::vector<Channel> channels = models.channels(options.variant, order_of(models, options));
  return call(pull, channels, rules_in(models, channels, options), options);
}

CallReport call(const Pull& pull, const std::vector<Channel>& channels, const std::vector<Rule>& rules,
                const DetectOptions& options) {
  const int64_t begin = monotonic_ns();
  CallReport report;
  const std::vector<int32_t> classes = comparable_classes(pull, report);
  say_what_is_missing(pull, report);
  LazyTraces source(pull, channels, options);
  report.silent = silences(pull, options.silent_s);
  for (const Alert& alert : silent_machines(pull, report.silent)) {
    if (static_cast<int>(report.alerts.size()) < options.top) report.alerts.push_back(alert);
  }
  bool any = false;
  for (size_t i = 0; i < channels.size(); ++i) {
    const bool there = has_all(pull, channels[i]);
    if (!there && channels[i].metrics.size() > 1)
      report.not_judged.push_back(channels[i].name + " needs all of its metrics");
    if (!there) continue;
    any = any || pull.seconds >= channels[i].embedding->window() + options.continuity_s - 1;
    if (static_cast<int>(report.alerts.size()) >= options.top) break;
    look_at(pull, channels[i], i, classes, rules, options, source, report);
    ++report.channels;
  }
  if (!any) {
    throw Error(
        {.code = ExitCode::kData,
         .what = "nothing can be judged",
         .expected = fmt::format("at least {} seconds of one of the metrics", options.continuity_s + 7),
         .found = fmt::format("{} of {}", counted(pull.seconds, "second"),
                              counted(static_cast<int64_t>(pull.metrics.size()), "metric"))});
  }
  report.seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  return report;
}

RunReport run_calls(const Pull& record, const Models& models, const DetectOptions& options) {
  const std::vector<Channel> channels = models.channels(options.variant, order_of(models, options));
  return run_calls(record, channels, rules_in(models, channels, options), options);
}

RunReport run_calls(const Pull& record, const std::vector<Channel>& channels, const std::vector<Rule>& rules,
                    const DetectOptions& options) {
  RunReport run;
  std::map<std::string, double> covered_s;  // until when an alert of the machine was last seen
  for (int64_t end = std::min(options.pull_s, record.seconds);;
       end = std::min(end + options.call_every_s, record.seconds)) {
    const int64_t begin = std::max<int64_t>(0, end - options.pull_s);
    const bool whole = begin == 0 && end == record.seconds;
    const CallReport report =
        call(whole ? record : record.part(begin, end - begin), channels, rules, options);
    ++run.calls;
    run.call_seconds.push_back(report.seconds);
    for (const Alert& alert : report.alerts) {
      const auto [known, fresh] = covered_s.try_emplace(alert.machine, alert.first_s);
      const bool goes_on = !fresh && alert.first_s <= known->second + static_cast<double>(options.gap_s) + 1;
      if (!goes_on) run.alerts.push_back(alert);
      known->second = record.first_s + static_cast<double>(end - 1);
    }
    run.silent = report.silent;
    for (const std::string& sentence : report.not_judged) {
      if (std::find(run.not_judged.begin(), run.not_judged.end(), sentence) == run.not_judged.end())
        run.not_judged.push_back(sentence);
    }
    if (end >= record.seconds) break;
  }
  return run;
}

}  // namespace longhaul::detect
