#include "observe/trace/time_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "observe/format.h"
#include "observe/table.h"

namespace longhaul::observe {
namespace {

struct Place {
  size_t rank, call;
};

bool message_call(const CallSpan& call) { return !call.sends_to.empty() || !call.receives_from.empty(); }

// Sorts intervals and merges overlapping ones.
std::vector<Interval> united(std::vector<Interval> intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  std::vector<Interval> all;
  for (const Interval& each : intervals) {
    if (!all.empty() && each.begin <= all.back().end)
      all.back().end = std::max(all.back().end, each.end);
    else if (each.begin < each.end)
      all.push_back(each);
  }
  return all;
}

int64_t length_of(const std::vector<Interval>& intervals) {
  int64_t length = 0;
  for (const Interval& each : intervals) length += each.end - each.begin;
  return length;
}

// The length of the intersection of two lists of intervals, each without overlaps.
int64_t common_length(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  int64_t length = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    length += std::max<int64_t>(0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    a[i].end < b[j].end ? ++i : ++j;
  }
  return length;
}

void meet_in_collectives(std::span<const StepOfRank> ranks, Meeting& meeting) {
  std::map<std::tuple<std::string, std::string, std::string, int64_t>, std::vector<Place>> groups;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& calls = ranks[rank].step->calls;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (!message_call(calls[i]))
        groups[{calls[i].group, calls[i].kind, calls[i].name, calls[i].sequence}].push_back({rank, i});
    }
  }
  for (const auto& [key, places] : groups) {
    int64_t last = 0;
    for (const Place& place : places)
      last = std::max(last, ranks[place.rank].step->calls[place.call].begin_ns);
    for (const Place& place : places) meeting.complete_ns[place.rank][place.call] = last;
  }
}

// The n-th message from one rank to another, by its sender and by its receiver.
void meet_in_messages(std::span<const StepOfRank> ranks, Meeting& meeting) {
  using Way = std::tuple<std::string, int64_t, int64_t>;  // group, from, to
  std::map<Way, std::vector<Place>> sends, receives;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto& calls = ranks[rank].step->calls;
    std::vector<size_t> order;  // as they were begun
    for (size_t i = 0; i < calls.size(); ++i) {
      if (message_call(calls[i])) order.push_back(i);
    }
    std::ranges::stable_sort(order, {}, [&](size_t i) { return calls[i].sequence; });
    for (const size_t i : order) {
      for (const int64_t to : calls[i].sends_to)
        sends[{calls[i].group, ranks[rank].rank, to}].push_back({rank, i});
      for (const int64_t from : calls[i].receives_from)
        receives[{calls[i].group, from, ranks[rank].rank}].push_back({rank, i});
    }
  }
  for (const auto& [way, sent] : sends) {
    const std::vector<Place>& received = receives[way];
    for (size_t i = 0; i < std::min(sent.size(), received.size()); ++i) {
      const Place from = sent[i], to = received[i];
      const int64_t both = std::max(ranks[from.rank].step->calls[from.call].begin_ns,
                                    ranks[to.rank].step->calls[to.call].begin_ns);
      for (const Place& place : {from, to}) {
        int64_t& complete = meeting.complete_ns[place.rank][place.call];
        complete = std::max(complete, both);
      }
      meeting.messages.push_back({from.rank, from.call, to.rank, to.call});
    }
  }
}

}  // namespace

Meeting meeting_of(std::span<const StepOfRank> ranks) {
  Meeting meeting;
  for (const StepOfRank& rank : ranks) {
    auto& complete = meeting.complete_ns.emplace_back();
    for (const CallSpan& call : rank.step->calls) complete.push_back(call.begin_ns);
  }
  meet_in_collectives(ranks, meeting);
  meet_in_messages(ranks, meeting);
  return meeting;
}

std::vector<Interval> blocked_by(const CallSpan& call) {
  std::vector<Interval> blocked;
  if (call.started_ns > call.begin_ns) blocked.push_back({call.begin_ns, call.started_ns});
  if (call.waited_until_ns > call.waited_from_ns)
    blocked.push_back({std::max(call.waited_from_ns, call.started_ns), call.waited_until_ns});
  return blocked;
}

TimeUse time_use(const StepOfRank& rank, std::span<const int64_t> complete_ns) {
  const StepTrace& step = *rank.step;
  std::vector<Interval> computes, stands, waits_for_data;
  TimeUse use{.rank = rank.rank, .steps = 1, .wall_ns = step.end_ns - step.begin_ns};
  for (const Span& span : step.spans)
    (span.kind == SpanKind::kData ? waits_for_data : computes).push_back({span.begin_ns, span.end_ns});
  std::vector<Interval> exposed;
  for (size_t i = 0; i < step.calls.size(); ++i) {
    for (Interval blocked : blocked_by(step.calls[i])) {
      blocked = {std::max(blocked.begin, step.begin_ns), std::min(blocked.end, step.end_ns)};
      stands.push_back(blocked);
      exposed.push_back({std::max(blocked.begin, complete_ns[i]), blocked.end});
    }
  }
  for (const Interval& wait : waits_for_data) stands.push_back(wait);
  computes = united(std::move(computes));
  use.busy_ns = length_of(computes) - common_length(computes, united(std::move(stands)));
  use.exposed_ns = length_of(united(std::move(exposed)));
  use.idle_ns = use.wall_ns - use.busy_ns - use.exposed_ns;
  return use;
}

std::vector<std::vector<StepOfRank>> steps_of(const std::vector<RankTrace>& ranks) {
  std::map<int64_t, std::vector<StepOfRank>> steps;
  for (const RankTrace& rank : ranks) {
    for (const StepTrace& step : rank.steps) steps[step.step].push_back({rank.rank.rank, &step});
  }
  std::vector<std::vector<StepOfRank>> all;
  for (auto& [step, of_ranks] : steps) all.push_back(std::move(of_ranks));
  return all;
}

std::vector<TimeUse> time_use(const std::vector<RankTrace>& ranks) {
  std::map<int64_t, TimeUse> all;
  for (const auto& step : steps_of(ranks)) {
    const Meeting meeting = meeting_of(step);
    for (size_t i = 0; i < step.size(); ++i) {
      const TimeUse use = time_use(step[i], meeting.complete_ns[i]);
      TimeUse& sum = all[use.rank];
      sum = {.rank = use.rank,
             .steps = sum.steps + 1,
             .wall_ns = sum.wall_ns + use.wall_ns,
             .busy_ns = sum.busy_ns + use.busy_ns,
             .exposed_ns = sum.exposed_ns + use.exposed_ns,
             .idle_ns = sum.idle_ns + use.idle_ns};
    }
  }
  std::vector<TimeUse> list;
  for (const auto& [rank, use] : all) list.push_back(use);
  return list;
}

std::string time_use_table(const std::vector<TimeUse>& ranks, bool colours) {
  Table table("time of a step", {{"rank"},
                                 {"wall", Align::kRight},
                                 {"busy", Align::kRight},
                                 {"", Align::kRight},
                                 {"communication exposed", Align::kRight},
                                 {"", Align::kRight},
                                 {"idle", Align::kRight},
                                 {"", Align::kRight}});
  for (const TimeUse& use : ranks) {
    const auto mean = [&](int64_t ns) {
      return milliseconds_text(static_cast<double>(ns) / static_cast<double>(use.steps) * 1e-6);
    };
    const auto share = [&](int64_t ns) {
      return percent(use.wall_ns > 0 ? static_cast<double>(ns) / static_cast<double>(use.wall_ns) : 0);
    };
    table.row({std::to_string(use.rank), mean(use.wall_ns), mean(use.busy_ns), share(use.busy_ns),
               mean(use.exposed_ns), share(use.exposed_ns), mean(use.idle_ns), share(use.idle_ns)});
  }
  return table.text(colours);
}

}  // namespace longhaul::observe
