// Marks in the queue of a device that computes. On a GPU a call only queues work, so the host's clock says
// when work was queued; marks say when it was done.
#pragma once

#include <cstddef>
#include <vector>

namespace longhaul::observe {

// Called by one thread at a time.
class DeviceMarks {
 public:
  virtual ~DeviceMarks() = default;
  // Forgets all marks. The device has done what was queued before.
  virtual void restart() = 0;
  // Queues a mark behind what is queued now; returns its number, from 0 in the order of the calls.
  virtual size_t mark() = 0;
  // When the device came to each mark, in seconds since restart(). The caller waits for the device.
  virtual std::vector<double> seconds() = 0;
};

}  // namespace longhaul::observe
