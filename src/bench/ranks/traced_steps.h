// Steps of two ranks that are threads, behind a link that takes as long as wanted: of what a rank does in one, how much it computes and how much it waits.
// All from a trace of its calls: it is idle where it awaits one, busy between.
#pragma once

#include <cstdint>
#include <functional>

#include "comm/communicator.h"
#include "comm/wrappers/link.h"

namespace longhaul::bench {

inline constexpr int64_t kTraceRanks = 2;

struct TracedStep {
  double wall_s = 0, busy_s = 0, idle_s = 0;
  double processor_s = 0;  // of the rank's thread: of what it is busy, what it had a processor for
  double bytes = 0;        // of its calls, the larger of sent and received
  double apart_s = 0;      // the least time between the beginnings of two calls
  int64_t waits = 0;
  bool adds_up = false;  // no two waits overlap, none lies outside of the step, and busy + idle = wall
};

// Of a rank's repetitions.
struct TimedSteps {
  TracedStep fastest;
  double idle_s = 0;  // the median: of small differences one repetition says little
};

using Step = std::function<void()>;
using Time = std::function<void(const Step& step)>;  // repeats it, on every rank

// rank: makes what a rank needs, in this world, and has its step timed. traced_rank: whose steps are told.
TimedSteps timed_steps(const comm::LinkOptions& options, int64_t repetitions,
                       const std::function<void(comm::Communicator&, const Time&)>& rank, int64_t traced_rank = 0);

// The share of communication that a delay of it has left exposed.
double exposed(const TimedSteps& delayed, const TimedSteps& alone, double communication_s);

}  // namespace longhaul::bench
