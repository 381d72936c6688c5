// EffectiveTime: the share of a run's time that was useful, which is the time of steps that were done once
// and kept. All other time is lost: starting, loading, steps that are done again, waiting for a verdict.
// Steps of a generation count if a later generation continued from them, or while that generation still runs.
// The ratio is also given for the last hour (ByteRobust's sliding figure; docs/sources/reliability.md §3).
#pragma once

#include <cstdint>
#include <deque>

namespace longhaul::control {

class EffectiveTime {
 public:
  // `productive_s`: productive time under earlier drivers of this run; the first of them began at began_s.
  EffectiveTime(double began_s, double productive_s) : began_s_(began_s), before_s_(productive_s) {}

  // A generation begins its first step, from checkpoint `step`; later steps of earlier generations are void.
  void resumed(int64_t step, double now_s);
  void done(int64_t step, double now_s);  // all ranks have done the step
  void stopped() { running_ = false; }

  double productive_s() const { return before_s_ + kept_s_ + current_s(); }
  double ratio(double now_s) const;
  double ratio_of_hour(double now_s) const;

 private:
  struct Stretch {        // from the end of one step to the end of a later one
    int64_t first, step;  // numbers of completed steps at the beginning and at the end
    double begin_s, end_s;
  };
  double current_s() const;
  void forget(double now_s);

  double began_s_, before_s_;
  double kept_s_ = 0;              // seconds of stretches that are no longer in the list
  std::deque<Stretch> stretches_;  // ascending; those that may still become void, and those of the last hour
  bool running_ = false;
  int64_t last_step_ = -1;
  double last_s_ = 0;
};

}  // namespace longhaul::control
