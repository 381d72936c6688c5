// Minder second by second: a ring of the last samples of every machine, and one new window a metric and second. An alert comes in the second in which
// its run becomes long enough, not with the next call. All metrics are looked at in every second; there is no early exit, as none has come before.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>

#include "detect/minder/detector.h"

namespace longhaul::detect {

class Stream {
 public:
  // Machines and classes as in a Pull; `metrics` those whose samples are given, in that order.
  Stream(const Models& models, const DetectOptions& options, std::vector<std::string> machines, std::vector<size_t> metrics,
         std::vector<int32_t> class_of = {}, std::vector<std::string> classes = {"all"});

  // values: [metric][machine] in [0, 1], NaN where there is none: then the last one counts for up to eight seconds. Alerts raised by this second.
  std::vector<Alert> next(double time_s, std::span<const float> values);
  void replaced(const std::string& machine);  // another one has taken its place: what was seen is forgotten

 private:
  struct Watch {
    WindowScorer scorer;
    Continuity continuity;
    std::optional<Continuity> alone;        // of twice the length, where an alarm needs another metric or that
    std::map<int32_t, int64_t> told;        // the first window of a machine's run that another metric agreed to
    std::vector<Alarm> found, found_alone;  // of this second
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
  std::vector<std::vector<size_t>> places_;  // of each channel's metrics
  std::deque<Watch> watches_;
  std::deque<std::vector<float>> ring_;  // the last seconds, newest last
  std::deque<double> times_;
  std::vector<float> last_;   // the last sample that was there
  std::vector<int64_t> age_;  // seconds since
  std::vector<bool> told_silent_;
  int most_followed_ = 1;
  int64_t second_ = 0, longest_ = 0;
};

}  // namespace longhaul::detect
