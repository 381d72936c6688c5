// A call of Minder takes the last minutes of every machine and returns the faulty machine. The metrics are
// examined in order of priority; the first metric in which one machine stays the furthest for four minutes
// ends the call. What cannot be judged is reported, and never counted as healthy: machines without data,
// classes with too few peers, and metrics that are missing or never change.
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
  std::vector<size_t> metrics;  // empty: all for which there are models
  int top = 1;                  // number of faulty machines that may be found at once
  // Number of the furthest machines whose runs are counted; 0: chosen by the size of their class.
  int followed = 0;
  // In classes with more machines an alarm needs a second metric or twice the time (agreement.h); 0: never.
  int64_t agreement_from = 100;
  bool continuous = true;
  int64_t continuity_s = 240, gap_s = 8;
  std::optional<double> share, distance_threshold;  // instead of the tuned thresholds
  double silent_s = 60;                             // machines without any data for that long are reported
  int64_t call_every_s = 480, pull_s = 900;
};

// The metric name in an alert for a machine that went silent.
inline constexpr const char* kNoData = "no_data";

struct Alert {
  std::string machine, metric, peers;  // peers: the class with which it was compared
  // first_s: start of the run that led to it; raised_s: when the run became long enough; in the time of the
  // samples.
  double first_s = 0, raised_s = 0;
  double score = 0;  // mean share of the largest possible score, as among sixteen machines (trace.h)
};

struct CallReport {
  std::vector<Alert> alerts;
  std::vector<Silence> silent;
  std::vector<std::string> not_judged;  // sentences: what could not be compared, and why
  int64_t channels = 0;                 // examined before the call ended
  int64_t windows = 0, scored = 0;      // windows of these channels, and those of them that had to be scored
  double seconds = 0;                   // duration of the call
};

// Error (65) when nothing can be judged at all: no class has four machines, or no window fits into the pull.
CallReport call(const Pull& pull, const Models& models, const DetectOptions& options);
// The same with given channels and one rule per channel. The call above uses it, and trials do.
CallReport call(const Pull& pull, const std::vector<Channel>& channels, const std::vector<Rule>& rules,
                const DetectOptions& options);

// Makes calls over a longer record, each over the last `pull_s` seconds, as the service does. A lasting alert
// is reported once.
struct RunReport {
  std::vector<Alert> alerts;
  std::vector<Silence> silent;
  std::vector<std::string> not_judged;
  int64_t calls = 0;
  std::vector<double> call_seconds;
};
RunReport run_calls(const Pull& record, const Models& models, const DetectOptions& options);
RunReport run_calls(const Pull& record, const std::vector<Channel>& channels, const std::vector<Rule>& rules,
                    const DetectOptions& options);

// The metrics that are examined, in order.
std::vector<size_t> order_of(const Models& models, const DetectOptions& options);
// An eighth of the class, between 1 and 16 (two for sixteen machines), and at least `top`.
int followed_of(const DetectOptions& options, const std::vector<int32_t>& class_of, int32_t peers);
// The tuned thresholds, unless the options give others.
Rule rule_of(const Threshold& tuned, const DetectOptions& options);

Alert alert_of(const Pull& pull, const Channel& channel, const Trace& trace, const Alarm& alarm);
// An alert for each machine all of whose metrics have ended.
std::vector<Alert> silent_machines(const Pull& pull, const std::vector<Silence>& silent);

}  // namespace longhaul::detect
