#include "detect/straggler/step_times.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "observe/trace/time_use.h"

namespace longhaul::detect {
namespace {

// Collective calls only: a message has two ends that differ.
std::vector<CallTimes> calls_of(std::span<const observe::StepOfRank> ranks) {
  std::map<std::tuple<std::string, std::string, int64_t>, CallTimes> calls;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const observe::CallSpan& call : ranks[rank].step->calls) {
      if (!call.sends_to.empty() || !call.receives_from.empty()) continue;
      CallTimes& times = calls[{call.group, call.kind, call.sequence}];
      times.group = call.group, times.kind = call.kind;
      times.members.push_back(rank);
      times.in_it_s.push_back(static_cast<double>(call.end_ns - call.begin_ns) * 1e-9);
    }
  }
  std::map<std::string, size_t> sizes;  // of groups: the largest number seen in one call
  for (const auto& [key, times] : calls)
    sizes[times.group] = std::max(sizes[times.group], times.members.size());
  std::vector<CallTimes> whole;
  for (auto& [key, times] : calls) {
    if (times.members.size() > 1 && times.members.size() == sizes[times.group])
      whole.push_back(std::move(times));
  }
  return whole;
}

}  // namespace

StepTimes step_times(const std::vector<observe::RankTrace>& traces) {
  StepTimes times;
  for (const observe::RankTrace& each : traces)
    times.ranks.push_back({.rank = each.rank.rank, .host = {}, .peers = each.rank.pp});
  for (const std::vector<observe::StepOfRank>& ranks : observe::steps_of(traces)) {
    if (ranks.size() != traces.size()) continue;
    const observe::Meeting meeting = observe::meeting_of(ranks);
    TimedStep& step = times.steps.emplace_back();
    step.step = ranks.front().step->step;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const observe::TimeUse use = observe::time_use(ranks[i], meeting.complete_ns[i]);
      double data_s = 0;
      for (const observe::Span& span : ranks[i].step->spans) {
        if (span.kind == observe::SpanKind::kData)
          data_s += static_cast<double>(span.end_ns - span.begin_ns) * 1e-9;
      }
      const double busy_s = static_cast<double>(use.busy_ns) * 1e-9,
                   wall_s = static_cast<double>(use.wall_ns) * 1e-9;
      step.ranks.push_back({.compute_s = busy_s,
                            .data_s = data_s,
                            .wait_s = std::max(0.0, wall_s - busy_s - data_s),
                            .work = {}});
      step.step_s = std::max(step.step_s, wall_s);
    }
    step.calls = calls_of(ranks);
  }
  return times;
}

}  // namespace longhaul::detect
