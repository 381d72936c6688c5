#include "observe/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "observe/time_use.h"

namespace longhaul::observe {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kComputeRow = 1, kDataRow = 2, kCheckpointRow = 3, kFirstCallRow = 10;
constexpr int64_t kRowsOfKind = 64;  // for calls of one kind of group that overlap

// "world/tp 3" → "tp": what its row is called.
std::string kind_of(const std::string& group) {
  const std::string last = group.substr(group.rfind('/') + 1);
  const size_t cut = last.rfind(' ');
  return cut == std::string::npos ? last : last.substr(0, cut);
}

std::string text_of(const SpanKind kind, int64_t chunk, int64_t micro_batch) {
  std::string text(name_of(kind));
  if (micro_batch >= 0) text += fmt::format(" {}", micro_batch);
  return chunk > 0 ? fmt::format("{} of chunk {}", text, chunk) : text;
}

class Writer {
 public:
  Writer(const std::vector<RankTrace>& ranks, const std::function<void(std::string_view)>& write) : ranks_(ranks), write_(write) {
    origin_ns_ = std::numeric_limits<int64_t>::max();
    std::set<std::string> kinds;
    for (const RankTrace& rank : ranks) {
      for (const StepTrace& step : rank.steps) {
        origin_ns_ = std::min(origin_ns_, step.begin_ns);
        for (const CallSpan& call : step.calls) kinds.insert(kind_of(call.group));
      }
    }
    int64_t row = kFirstCallRow;
    for (const std::string& kind : kinds) first_row_[kind] = row, row += kRowsOfKind;
  }

  void run() {
    write_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (const auto& step : steps_of(ranks_)) step_of_all(step);
    for (const RankTrace& rank : ranks_) name_rows(rank.rank);
    write_("\n]}\n");
  }

 private:
  void add(const ordered_json& event) {
    write_(first_ ? "\n" : ",\n");
    write_(event.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    first_ = false;
  }
  double microseconds(int64_t ns) const { return static_cast<double>(ns) * 1e-3; }
  double at(int64_t ns) const { return microseconds(ns - origin_ns_); }

  void slice(int64_t rank, int64_t row, const std::string& name, const char* category, Interval time, ordered_json arguments) {
    rows_[rank].insert(row);
    add({{"name", name},
         {"cat", category},
         {"ph", "X"},
         {"ts", at(time.begin)},
         {"dur", microseconds(time.end - time.begin)},
         {"pid", rank},
         {"tid", row},
         {"args", std::move(arguments)}});
  }

  void name_rows(const TraceRank& rank) {
    const auto name = [&](const char* what, int64_t row, ordered_json arguments) {
      add({{"name", what}, {"ph", "M"}, {"pid", rank.rank}, {"tid", row}, {"args", std::move(arguments)}});
    };
    name("process_name", 0, {{"name", fmt::format("rank {} (pp {}, dp {}, cp {}, tp {})", rank.rank, rank.pp, rank.dp, rank.cp, rank.tp)}});
    name("process_sort_index", 0, {{"sort_index", rank.rank}});
    for (const int64_t row : rows_[rank.rank]) {
      name("thread_name", row, {{"name", name_of_row(row)}});
      name("thread_sort_index", row, {{"sort_index", row}});
    }
  }

  std::string name_of_row(int64_t row) const {
    if (row < kFirstCallRow) return row == kComputeRow ? "compute" : row == kDataRow ? "data" : "checkpoint";
    for (const auto& [kind, first] : first_row_) {
      if (row >= first && row < first + kRowsOfKind)
        return "communication " + kind + (row > first ? fmt::format(" ({})", row - first + 1) : "");
    }
    return "";
  }

  void step_of_all(const std::vector<StepOfRank>& ranks) {
    const Meeting meeting = meeting_of(ranks);
    std::vector<std::vector<int64_t>> rows;  // of each rank's calls
    for (size_t i = 0; i < ranks.size(); ++i) {
      spans_of(ranks[i]);
      rows.push_back(calls_of(ranks[i], meeting.complete_ns[i]));
    }
    for (const auto& message : meeting.messages) {
      const CallSpan &from = ranks[message.from_rank].step->calls[message.from_call],
                     &to = ranks[message.to_rank].step->calls[message.to_call];
      ++arrows_;
      arrow("s", ranks[message.from_rank].rank, rows[message.from_rank][message.from_call], from.begin_ns);
      arrow("f", ranks[message.to_rank].rank, rows[message.to_rank][message.to_call], std::max(to.begin_ns, to.end_ns - 1));
    }
  }

  void arrow(const char* phase, int64_t rank, int64_t row, int64_t ns) {
    ordered_json event{{"name", "message"}, {"cat", "message"}, {"ph", phase}, {"id", arrows_},
                       {"ts", at(ns)},      {"pid", rank},      {"tid", row}};
    if (phase[0] == 'f') event["bp"] = "e";
    add(event);
  }

  void spans_of(const StepOfRank& rank) {
    const StepTrace& step = *rank.step;
    slice(rank.rank, kComputeRow, fmt::format("step {}", step.step), "step", {step.begin_ns, step.end_ns},
          {{"step", step.step}, {"dropped", step.dropped}});
    for (const Span& span : step.spans) {
      ordered_json arguments{{"step", step.step}};
      if (span.chunk >= 0) arguments["chunk"] = span.chunk;
      if (span.micro_batch >= 0) arguments["micro_batch"] = span.micro_batch;
      const int64_t row = span.kind == SpanKind::kData ? kDataRow : span.kind == SpanKind::kCheckpoint ? kCheckpointRow : kComputeRow;
      slice(rank.rank, row, text_of(span.kind, span.chunk, span.micro_batch), "compute", {span.begin_ns, span.end_ns},
            std::move(arguments));
    }
  }

  // → the row of each.
  std::vector<int64_t> calls_of(const StepOfRank& rank, const std::vector<int64_t>& complete_ns) {
    const auto& calls = rank.step->calls;
    std::vector<size_t> order(calls.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_sort(order, {}, [&](size_t i) { return calls[i].begin_ns; });
    std::map<std::string, std::vector<int64_t>> free_from;  // of each row of the kind
    std::vector<int64_t> rows(calls.size());
    for (const size_t i : order) {
      const CallSpan& call = calls[i];
      auto& of_kind = free_from[kind_of(call.group)];
      size_t row = 0;
      while (row < of_kind.size() && of_kind[row] > call.begin_ns) ++row;
      if (row == of_kind.size()) of_kind.push_back(0);
      of_kind[row] = call.end_ns;
      rows[i] = first_row_.at(kind_of(call.group)) + std::min<int64_t>(static_cast<int64_t>(row), kRowsOfKind - 1);
      show(rank, call, complete_ns[i], rows[i]);
    }
    return rows;
  }

  void show(const StepOfRank& rank, const CallSpan& call, int64_t complete_ns, int64_t row) {
    const std::string name = fmt::format("{}: {}", call.kind, call.name);
    ordered_json arguments{{"step", rank.step->step},
                           {"group", call.group},
                           {"number", call.sequence},
                           {"sent_bytes", call.sent},
                           {"received_bytes", call.received}};
    if (!call.sends_to.empty()) arguments["to"] = call.sends_to;
    if (!call.receives_from.empty()) arguments["from"] = call.receives_from;
    arguments["last_rank_came_after_us"] = microseconds(std::max<int64_t>(0, complete_ns - call.begin_ns));
    slice(rank.rank, row, name, "communication", {call.begin_ns, call.end_ns}, std::move(arguments));
    for (const Interval& blocked : blocked_by(call)) {
      slice(rank.rank, kComputeRow, "stands still: " + name, "wait", blocked, {{"step", rank.step->step}, {"group", call.group}});
    }
  }

  const std::vector<RankTrace>& ranks_;
  const std::function<void(std::string_view)>& write_;
  std::map<std::string, int64_t> first_row_;   // of a kind of group
  std::map<int64_t, std::set<int64_t>> rows_;  // that a rank has
  int64_t origin_ns_ = 0;
  int64_t arrows_ = 0;
  bool first_ = true;
};

}  // namespace

void write_chrome_trace(const std::vector<RankTrace>& ranks, const std::function<void(std::string_view)>& write) {
  Writer(ranks, write).run();
}

}  // namespace longhaul::observe
