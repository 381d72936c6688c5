// Measures the loopback: a connection of this machine to itself, whose bytes are compared when they arrive.
// It detects a network stack that does not work (no loopback, a firewall, no descriptors left) or a machine
// too busy to answer itself.
#pragma once

#include <cstdint>

namespace longhaul {

struct LoopbackRate {
  double bytes_per_second = 0;
  double round_trip_ms = 0;  // median time for one byte there and back
  int64_t bytes = 0;
  bool intact = true;  // the received bytes are the sent ones
};

LoopbackRate measured_loopback(int64_t bytes = 64 << 20);  // kCommunication where no connection can be made

}  // namespace longhaul
