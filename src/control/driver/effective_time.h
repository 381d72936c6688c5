// EffectiveTime: how much of a run's time was of use: the time of steps that were done once and kept. Everything else is lost: starting, loading, steps
// done again, waiting for a verdict. Steps of a generation count when a later one went on from them, or while it still runs. Also over the last
// hour (ByteRobust's sliding figure; docs/sources/reliability.md §3).
#pragma once

#include <cstdint>
#include <deque>

namespace longhaul::control {

class EffectiveTime {
 public:
  // `productive_s`: of earlier drivers of this run, whose first began at began_s.
  EffectiveTime(double began_s, double productive_s) : began_s_(began_s), before_s_(productive_s) {}

  void resumed(int64_t step, double now_s);  // a generation begins its first step; steps above this one of those before are void
  void done(int64_t step, double now_s);     // all ranks have done it
  void stopped() { running_ = false; }

  double productive_s() const { return before_s_ + kept_s_ + current_s(); }
  double ratio(double now_s) const;
  double ratio_of_hour(double now_s) const;

 private:
  struct Stretch {        // from one step's end to a later one's
    int64_t first, step;  // steps done at its begin and at its end
    double begin_s, end_s;
  };
  double current_s() const;
  void forget(double now_s);

  double began_s_, before_s_;
  double kept_s_ = 0;              // of stretches that are not in the list any more
  std::deque<Stretch> stretches_;  // ascending, those that may be void yet and those of the last hour
  bool running_ = false;
  int64_t last_step_ = -1;
  double last_s_ = 0;
};

}  // namespace longhaul::control
