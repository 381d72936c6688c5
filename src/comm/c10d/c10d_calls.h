// start_call: a checked call of a communicator as calls of a c10d back end. Internal to C10dGroup.
//
// A collective call is one call of the back end, also where shares are uneven: they are padded to the longest
// in scratch memory of up to kMostPadded bytes, because c10d serves uneven lists by one reduction or
// broadcast a rank. Larger ones are given to it as lists. The messages of an exchange are one group.
#pragma once

#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "comm/call.h"

namespace longhaul::comm {

inline constexpr int64_t kMostPadded = int64_t{256} << 20;

struct StartedCalls {
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  std::function<void()> finish;  // after the works, on the current stream; empty: nothing is left to do
};

StartedCalls start_call(c10d::Backend& backend, const Call& call, int64_t rank,
                        std::chrono::milliseconds timeout);

}  // namespace longhaul::comm
