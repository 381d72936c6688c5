#include "tensor/queue_marks.h"

namespace longhaul {

void QueueMarks::restart() {
  used_ = 0;
  begin_.record(Stream::current(device_));
}

size_t QueueMarks::mark() {
  if (used_ == events_.size()) events_.emplace_back(device_);
  events_[used_].record(Stream::current(device_));
  return used_++;
}

std::vector<double> QueueMarks::seconds() {
  std::vector<double> result;
  for (size_t i = 0; i < used_; ++i) result.push_back(events_[i].milliseconds_since(begin_) * 1e-3);
  return result;
}

}  // namespace longhaul
