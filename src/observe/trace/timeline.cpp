#include "observe/trace/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "observe/board/group_kind.h"

namespace longhaul::observe {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kComputeRow = 1, kDataRow = 2, kCheckpointRow = 3, kBesideRow = 4, kFirstCallRow = 10;
constexpr int64_t kRowsOfKind = 64;  // for calls of one kind of group that overlap

std::string text_of(const SpanKind kind, int64_t chunk, int64_t micro_batch) {
  std::string text(name_of(kind));
  if (micro_batch >= 0) text += fmt::format(" {}", micro_batch);
  return chunk > 0 ? fmt::format("{} of chunk {}", text, chunk) : text;
}

class Walk {
 public:
  Walk(const std::vector<RankTrace>& ranks, TimelineSink& sink) : ranks_(ranks), sink_(sink) {
    std::set<std::string> kinds;
    for (const RankTrace& rank : ranks) {
      for (const StepTrace& step : rank.steps) {
        origin_ns_ = std::min(origin_ns_, step.begin_ns);
        for (const CallSpan& call : step.calls) kinds.insert(group_kind(call.group));
        for (const BesideSpan& span : step.beside) origin_ns_ = std::min(origin_ns_, span.begin_ns);
      }
    }
    int64_t row = kFirstCallRow;
    for (const std::string& kind : kinds) first_row_[kind] = row, row += kRowsOfKind;
  }

  void run() {
    for (const auto& step : steps_of(ranks_)) step_of_all(step);
    for (const RankTrace& rank : ranks_) {
      const TraceRank& r = rank.rank;
      const bool planned = r.rank >= kFirstPlannedRank;
      sink_.name_rank(r, fmt::format("rank {}{} (pp {}, dp {}, cp {}, tp {})",
                                     planned ? r.rank - kFirstPlannedRank : r.rank,
                                     planned ? " as planned" : "", r.pp, r.dp, r.cp, r.tp));
      for (const int64_t row : rows_[r.rank]) sink_.name_row(r.rank, row, name_of_row(row));
    }
  }

 private:
  using Numbers = std::vector<std::vector<int64_t>>;  // of each call

  void step_of_all(const std::vector<StepOfRank>& ranks) {
    const Meeting meeting = meeting_of(ranks);
    std::vector<Numbers> sends, receives;
    for (const StepOfRank& rank : ranks)
      sends.emplace_back(rank.step->calls.size()), receives.emplace_back(rank.step->calls.size());
    for (const auto& message : meeting.messages) {
      ++messages_;
      sends[message.from_rank][message.from_call].push_back(messages_);
      receives[message.to_rank][message.to_call].push_back(messages_);
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      slices_.clear();
      spans_of(ranks[i]);
      beside(ranks[i]);
      calls_of(ranks[i], meeting.complete_ns[i], sends[i], receives[i]);
      sink_.slices(slices_);
    }
  }

  TimelineSlice& slice(int64_t rank, int64_t row, std::string name, const char* category, Interval time,
                       ordered_json arguments) {
    rows_[rank].insert(row);
    slices_.push_back({.rank = rank,
                       .row = row,
                       .name = std::move(name),
                       .category = category,
                       .time = {time.begin - origin_ns_, time.end - origin_ns_},
                       .arguments = std::move(arguments)});
    return slices_.back();
  }

  std::string name_of_row(int64_t row) const {
    if (row < kFirstCallRow)
      return row == kComputeRow  ? "compute"
             : row == kDataRow   ? "data"
             : row == kBesideRow ? "beside"
                                 : "checkpoint";
    for (const auto& [kind, first] : first_row_) {
      if (row >= first && row < first + kRowsOfKind)
        return "communication " + kind + (row > first ? fmt::format(" ({})", row - first + 1) : "");
    }
    return "";
  }

  void spans_of(const StepOfRank& rank) {
    const StepTrace& step = *rank.step;
    slice(rank.rank, kComputeRow, fmt::format("step {}", step.step), "step", {step.begin_ns, step.end_ns},
          {{"step", step.step}, {"dropped", step.dropped}});
    for (const Span& span : step.spans) {
      ordered_json arguments{{"step", step.step}};
      if (span.chunk >= 0) arguments["chunk"] = span.chunk;
      if (span.micro_batch >= 0) arguments["micro_batch"] = span.micro_batch;
      const int64_t row = span.kind == SpanKind::kData         ? kDataRow
                          : span.kind == SpanKind::kCheckpoint ? kCheckpointRow
                                                               : kComputeRow;
      slice(rank.rank, row, text_of(span.kind, span.chunk, span.micro_batch), "compute",
            {span.begin_ns, span.end_ns}, std::move(arguments));
    }
  }

  void beside(const StepOfRank& rank) {
    for (const BesideSpan& span : rank.step->beside)
      slice(rank.rank, kBesideRow, span.name, "beside", {span.begin_ns, span.end_ns},
            {{"step", rank.step->step}});
  }

  void calls_of(const StepOfRank& rank, const std::vector<int64_t>& complete_ns, const Numbers& sends,
                const Numbers& receives) {
    const auto& calls = rank.step->calls;
    std::vector<size_t> order(calls.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](size_t i) { return calls[i].begin_ns; });
    for (const size_t i : order) {
      const CallSpan& call = calls[i];
      auto& of_kind = free_from_[{rank.rank, group_kind(call.group)}];
      size_t row = 0;
      while (row < of_kind.size() && of_kind[row] > call.begin_ns) ++row;
      if (row == of_kind.size()) of_kind.push_back(0);
      of_kind[row] = call.end_ns;
      call_of(rank, call, complete_ns[i],
              first_row_.at(group_kind(call.group)) +
                  std::min<int64_t>(static_cast<int64_t>(row), kRowsOfKind - 1),
              sends[i], receives[i]);
    }
  }

  void call_of(const StepOfRank& rank, const CallSpan& call, int64_t complete_ns, int64_t row,
               const std::vector<int64_t>& sends, const std::vector<int64_t>& receives) {
    const std::string name = fmt::format("{}: {}", call.kind, call.name);
    ordered_json arguments{{"step", rank.step->step},
                           {"group", call.group},
                           {"number", call.sequence},
                           {"sent_bytes", call.sent},
                           {"received_bytes", call.received}};
    if (!call.sends_to.empty()) arguments["to"] = call.sends_to;
    if (!call.receives_from.empty()) arguments["from"] = call.receives_from;
    arguments["last_rank_came_after_us"] =
        static_cast<double>(std::max<int64_t>(0, complete_ns - call.begin_ns)) * 1e-3;
    TimelineSlice& made =
        slice(rank.rank, row, name, "communication", {call.begin_ns, call.end_ns}, std::move(arguments));
    made.sends = sends, made.receives = receives;
    for (const Interval& blocked : blocked_by(call)) {
      slice(rank.rank, kComputeRow, "stands still: " + name, "wait", blocked,
            {{"step", rank.step->step}, {"group", call.group}});
    }
  }

  const std::vector<RankTrace>& ranks_;
  TimelineSink& sink_;
  std::map<std::string, int64_t> first_row_;   // of a kind of group
  std::map<int64_t, std::set<int64_t>> rows_;  // that a rank has
  // For each row of a rank's kind of group.
  std::map<std::pair<int64_t, std::string>, std::vector<int64_t>> free_from_;
  std::vector<TimelineSlice> slices_;
  int64_t origin_ns_ = std::numeric_limits<int64_t>::max();
  int64_t messages_ = 0;
};

}  // namespace

void walk_timeline(const std::vector<RankTrace>& ranks, TimelineSink& sink) { Walk(ranks, sink).run(); }

}  // namespace longhaul::observe
