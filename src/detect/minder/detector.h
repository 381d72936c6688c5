// A call of Minder: the last minutes of every machine in, the faulty machine out. Metrics are looked at in order of priority; the first with a
// machine that stays the furthest for four minutes ends the call. Whatever cannot be judged is said, never taken for healthy: machines without data,
// classes with too few peers, metrics that are missing or never change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detect/minder/models.h"

namespace longhaul::detect {

enum class Priority { kLearnt, kTree, kPaper };  // kTree: only the metrics that the decision tree uses

struct DetectOptions {
  Variant variant = Variant::kMinder;
  Distance distance = Distance::kEuclidean;
  Priority priority = Priority::kLearnt;
  std::vector<size_t> metrics;  // empty: all that there are models of
  int top = 1;                  // faulty machines that may be found at once
  int followed = 0;             // the furthest machines whose runs are counted; 0: by the size of their class
  int64_t agreement_from =
      100;  // machines of a class beyond which an alarm needs a second metric or twice the time (agreement.h); 0: never
  bool continuous = true;
  int64_t continuity_s = 240, gap_s = 8;
  std::optional<double> share, distance_threshold;  // instead of those that were tuned
  double silent_s = 60;                             // machines without any data for that long are named
  int64_t call_every_s = 480, pull_s = 900;
};

inline constexpr const char* kNoData = "no_data";  // the metric of an alert for a machine that went silent

struct Alert {
  std::string machine, metric, peers;  // peers: the class it was compared with
  double first_s = 0, raised_s = 0;    // of the run that led to it, and when it became long enough: in the time of the samples
  double score = 0;                    // mean share of the largest possible score, as among sixteen machines (trace.h)
};

struct CallReport {
  std::vector<Alert> alerts;
  std::vector<Silence> silent;
  std::vector<std::string> not_judged;  // sentences: what could not be compared, and why
  int64_t channels = 0;                 // looked at before the call ended
  int64_t windows = 0, scored = 0;      // of these channels, and those of them that the answer depended on
  double seconds = 0;                   // that the call took
};

// Error (65) when nothing can be judged at all: no class has four machines, or no window fits.
CallReport call(const Pull& pull, const Models& models, const DetectOptions& options);
// By channels and rules of one's own, a rule a channel: what the call above comes to, and trials.
CallReport call(const Pull& pull, const std::vector<Channel>& channels, const std::vector<Rule>& rules, const DetectOptions& options);

// Calls over a longer record, each over the last `pull_s` seconds, as the service makes them. An alert that goes on is told once.
struct RunReport {
  std::vector<Alert> alerts;
  std::vector<Silence> silent;
  std::vector<std::string> not_judged;
  int64_t calls = 0;
  std::vector<double> call_seconds;
};
RunReport run_calls(const Pull& record, const Models& models, const DetectOptions& options);
RunReport run_calls(const Pull& record, const std::vector<Channel>& channels, const std::vector<Rule>& rules, const DetectOptions& options);

// Which metrics are looked at, in which order.
std::vector<size_t> order_of(const Models& models, const DetectOptions& options);
// An eighth of the class, 1 to 16: as among sixteen machines two; at least `top`.
int followed_of(const DetectOptions& options, const std::vector<int32_t>& class_of, int32_t peers);
Rule rule_of(const Threshold& tuned, const DetectOptions& options);  // unless the options say other thresholds

Alert alert_of(const Pull& pull, const Channel& channel, const Trace& trace, const Alarm& alarm);
// Machines all of whose metrics ended: an alert each.
std::vector<Alert> silent_machines(const Pull& pull, const std::vector<Silence>& silent);

}  // namespace longhaul::detect
