// Stream: Minder second by second. It keeps a ring of the last samples of every machine, and scores one new
// window per metric and second. An alert comes in the second in which its run becomes long enough, not with
// the next call. All metrics are examined in every second: there is no early exit.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>

#include "detect/minder/detector.h"

namespace longhaul::detect {

class Stream {
 public:
  // Machines and classes are as in a Pull; `metrics` are those of the samples that are given, in that order.
  Stream(const Models& models, const DetectOptions& options, std::vector<std::string> machines,
         std::vector<size_t> metrics, std::vector<int32_t> class_of = {},
         std::vector<std::string> classes = {"all"});

  // values: [metric][machine] in [0, 1], NaN where a sample is missing (then the last one is used for up to
  // eight seconds). Returns the alerts that this second raises.
  std::vector<Alert> next(double time_s, std::span<const float> values);
  // Another machine has taken its place: its samples are forgotten.
  void replaced(const std::string& machine);

 private:
  struct Watch {
    WindowScorer scorer;
    Continuity continuity;
    // For runs of twice the length, where an alarm needs that or another metric.
    std::optional<Continuity> alone;
    // the first window of a machine's run to which another metric agreed
    std::map<int32_t, int64_t> told;
    std::vector<Alarm> found, found_alone;  // those of this second
    Rule rule;
    size_t channel;
    int32_t peers;
    std::vector<int32_t> members;
  };
  std::vector<float> filled(std::span<const float> values);
  std::vector<Alert> silent(double time_s);
  void look_at_second(Watch& watch);
  std::vector<Alarm> alarms_of_second(Watch& watch);
  bool any_agrees(const Watch& watch, const Alarm& alarm) const;

  DetectOptions options_;
  std::vector<std::string> machines_, classes_;
  std::vector<size_t> metrics_;
  std::vector<int32_t> class_of_;
  std::vector<Channel> channels_;
  std::vector<std::vector<size_t>> places_;  // places of each channel's metrics
  std::deque<Watch> watches_;
  std::deque<std::vector<float>> ring_;  // the last seconds, newest last
  std::deque<double> times_;
  std::vector<float> last_;   // the last sample that was not missing
  std::vector<int64_t> age_;  // seconds since then
  std::vector<bool> told_silent_;
  int most_followed_ = 1;
  int64_t second_ = 0, longest_ = 0;
};

}  // namespace longhaul::detect
