// clock_offset: how far a rank's monotonic clock is from rank 0's, for pictures of several ranks' times. Ranks on one machine have one clock; of others
// it is measured: messages go to rank 0 and back, and the quickest of some rounds says what it shows half way (Cristian 1989).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/communicator.h"

namespace longhaul::comm {

struct ClockOffset {
  int64_t offset_ns = 0;  // rank 0's clock minus this rank's
  int64_t error_ns = 0;   // it is wrong by at most that much: half of the quickest round
};

// A collective call. `clock_of`: names the clock, the same on ranks that share one (base/machine/machine.h: boot).
ClockOffset clock_offset(Communicator& world, const std::string& clock_of, const std::function<int64_t()>& now_ns);

}  // namespace longhaul::comm
