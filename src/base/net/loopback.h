// The loopback, measured: a connection of this machine to itself, through which bytes go that are compared when they arrive. What it finds is a
// network stack that does not work (no loopback, a firewall, no descriptors left) or a machine too busy to answer itself.
#pragma once

#include <cstdint>

namespace longhaul {

struct LoopbackRate {
  double bytes_per_second = 0;
  double round_trip_ms = 0;  // median of a byte there and back
  int64_t bytes = 0;
  bool intact = true;  // what came is what was sent
};

LoopbackRate measured_loopback(int64_t bytes = 64 << 20);  // kCommunication where no connection comes about

}  // namespace longhaul
