#include "bench/ranks/traced_steps.h"

#include <algorithm>

#include "base/clock.h"
#include "base/machine/processor_time.h"
#include "comm/threads/run_ranks.h"
#include "comm/wrappers/delayed.h"
#include "comm/wrappers/traced.h"

namespace longhaul::bench {
namespace {

// What a rank did between two moments.
TracedStep traced_between(const comm::CallLog& log, int64_t begin, int64_t end) {
  TracedStep step{.wall_s = static_cast<double>(end - begin) * 1e-9, .adds_up = true};
  step.apart_s = step.wall_s;
  std::vector<std::pair<int64_t, int64_t>> waits;
  int64_t entered = 0;
  for (const comm::CallRecord& call : log.records().calls) {
    if (call.entered_ns < begin || call.entered_ns > end) continue;
    if (entered != 0)
      step.apart_s = std::min(step.apart_s, static_cast<double>(call.entered_ns - entered) * 1e-9);
    entered = call.entered_ns;
    step.bytes += static_cast<double>(std::max(call.traffic.sent, call.traffic.received));
    if (call.awaited_ns != 0) waits.emplace_back(call.awaited_ns, call.ended_ns);
  }
  std::ranges::sort(waits);
  int64_t at = begin, busy = 0, idle = 0;
  for (const auto& [from, to] : waits) {
    step.adds_up = step.adds_up && from >= at && to >= from && to <= end;
    busy += from - at;
    idle += to - from;
    at = to;
  }
  busy += end - at;
  step.adds_up = step.adds_up && busy + idle == end - begin;
  step.busy_s = static_cast<double>(busy) * 1e-9;
  step.idle_s = static_cast<double>(idle) * 1e-9;
  step.waits = static_cast<int64_t>(waits.size());
  return step;
}

}  // namespace

TimedSteps timed_steps(const comm::LinkOptions& options, int64_t repetitions,
                       const std::function<void(comm::Communicator&, const Time&)>& rank,
                       int64_t traced_rank) {
  std::vector<TracedStep> steps;
  comm::run_ranks(kTraceRanks, [&](comm::Communicator& threads) {
    const auto log = std::make_shared<comm::CallLog>(threads.rank());
    comm::Delayed slow(comm::borrowed(threads), std::make_shared<comm::Link>(options));
    comm::Traced world(comm::borrowed(slow), log);
    rank(world, [&](const Step& step) {
      step();  // what is made at the first use
      for (int64_t i = 0; i < repetitions; ++i) {
        world.barrier({.name = "all begin"}).wait();
        const int64_t begin = monotonic_ns(), processor = thread_processor_ns();
        step();
        const int64_t end = monotonic_ns(), processor_end = thread_processor_ns();
        TracedStep traced = traced_between(*log, begin, end);
        traced.processor_s = static_cast<double>(processor_end - processor) * 1e-9;
        if (threads.rank() == traced_rank) steps.push_back(traced);
      }
    });
  });
  TimedSteps result{.fastest = *std::ranges::min_element(steps, {}, &TracedStep::wall_s)};
  std::ranges::sort(steps, {}, &TracedStep::idle_s);
  result.idle_s = (steps[(steps.size() - 1) / 2].idle_s + steps[steps.size() / 2].idle_s) / 2;
  return result;
}

double exposed(const TimedSteps& delayed, const TimedSteps& alone, double communication_s) {
  return std::max(0.0, delayed.idle_s - alone.idle_s) / communication_s;
}

}  // namespace longhaul::bench
