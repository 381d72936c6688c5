// QueueMarks: marks of a step in the current stream of a GPU, as events of LibTorch. They cost a microsecond
// each and nobody waits for them before seconds().
#pragma once

#include <deque>

#include "observe/trace/device_marks.h"
#include "tensor/device.h"

namespace longhaul {

class QueueMarks final : public observe::DeviceMarks {
 public:
  explicit QueueMarks(at::Device device) : device_(device), begin_(device) {}
  void restart() override;
  size_t mark() override;
  std::vector<double> seconds() override;

 private:
  at::Device device_;
  Event begin_;
  std::deque<Event> events_;  // made once, recorded again in every step
  size_t used_ = 0;
};

}  // namespace longhaul
