// Steps of two ranks that are threads, over a link of a chosen speed: measures how much of a step a rank
// computes and how much it waits. The numbers come from a trace of its calls: the rank is idle while it
// awaits a call, and busy between.
#pragma once

#include <cstdint>
#include <functional>

#include "comm/communicator.h"
#include "comm/wrappers/link.h"

namespace longhaul::bench {

inline constexpr int64_t kTraceRanks = 2;

struct TracedStep {
  double wall_s = 0, busy_s = 0, idle_s = 0;
  double processor_s = 0;  // the part of the busy time in which the rank's thread ran on a processor
  double bytes = 0;        // bytes of its calls, the larger of sent and received
  double apart_s = 0;      // the least time between the beginnings of two calls
  int64_t waits = 0;
  bool adds_up = false;  // no two waits overlap, none lies outside of the step, and busy + idle = wall
};

// Statistics of a rank's repetitions.
struct TimedSteps {
  TracedStep fastest;
  double idle_s = 0;  // the median, because a single repetition is too noisy for small differences
};

using Step = std::function<void()>;
using Time = std::function<void(const Step& step)>;  // repeats the step, on every rank

// rank: makes what a rank needs, in this world, and has its step timed. traced_rank: the rank whose steps
// are reported.
TimedSteps timed_steps(const comm::LinkOptions& options, int64_t repetitions,
                       const std::function<void(comm::Communicator&, const Time&)>& rank,
                       int64_t traced_rank = 0);

// The share of the communication's delay that is exposed.
double exposed(const TimedSteps& delayed, const TimedSteps& alone, double communication_s);

}  // namespace longhaul::bench
