#include "control/driver/effective_time.h"

#include <algorithm>

namespace longhaul::control {
namespace {

constexpr double kHour_s = 3600;

}  // namespace

void EffectiveTime::resumed(int64_t step, double now_s) {
  while (!stretches_.empty() && stretches_.back().step > step) {
    Stretch& last = stretches_.back();
    if (last.first < step) {  // part of it is kept
      last.end_s = last.begin_s + (last.end_s - last.begin_s) * static_cast<double>(step - last.first) /
                                      static_cast<double>(last.step - last.first);
      last.step = step;
      break;
    }
    stretches_.pop_back();
  }
  running_ = true;
  last_step_ = step;
  last_s_ = now_s;
}

void EffectiveTime::done(int64_t step, double now_s) {
  if (!running_ || step <= last_step_) return;
  stretches_.push_back({last_step_, step, last_s_, now_s});
  last_step_ = step;
  last_s_ = now_s;
  forget(now_s);
}

// Stretches are a second long or longer: an hour, plus those that may still become void, are some thousands.
void EffectiveTime::forget(double now_s) {
  constexpr size_t kMost = 20000;
  while (stretches_.size() > kMost ||
         (stretches_.size() > kMost / 2 && stretches_.front().end_s < now_s - kHour_s)) {
    kept_s_ += stretches_.front().end_s - stretches_.front().begin_s;
    stretches_.pop_front();
  }
}

double EffectiveTime::current_s() const {
  double sum = 0;
  for (const Stretch& stretch : stretches_) sum += stretch.end_s - stretch.begin_s;
  return sum;
}

double EffectiveTime::ratio(double now_s) const {
  return now_s > began_s_ ? std::clamp(productive_s() / (now_s - began_s_), 0.0, 1.0) : 1;
}

double EffectiveTime::ratio_of_hour(double now_s) const {
  const double window_s = std::min(kHour_s, now_s - began_s_);
  if (window_s <= 0) return 1;
  double sum = 0;
  for (auto stretch = stretches_.rbegin(); stretch != stretches_.rend() && stretch->end_s > now_s - window_s;
       ++stretch) {
    sum += stretch->end_s - std::max(stretch->begin_s, now_s - window_s);
  }
  return std::clamp(sum / window_s, 0.0, 1.0);
}

}  // namespace longhaul::control
