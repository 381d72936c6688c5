// clock_offset: measures the offset of a rank's monotonic clock from rank 0's, so that the times of several
// ranks can be drawn in one picture. Ranks on one machine share a clock. For other ranks, messages go to
// rank 0 and back for several rounds; in the quickest round, rank 0's time is taken to be that of the
// middle of the round (Cristian 1989).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/communicator.h"

namespace longhaul::comm {

struct ClockOffset {
  int64_t offset_ns = 0;  // rank 0's clock minus this rank's
  int64_t error_ns = 0;   // upper bound of the error: half of the quickest round
};

// A collective call. `clock_of`: names the clock, the same on ranks that share one (base/machine/machine.h:
// boot).
ClockOffset clock_offset(Communicator& world, const std::string& clock_of,
                         const std::function<int64_t()>& now_ns);

}  // namespace longhaul::comm
