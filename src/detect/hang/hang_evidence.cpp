// The evidence of a rank about a hang, as text, and back.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/text/json.h"
#include "detect/hang/hang.h"

namespace longhaul::detect {

using observe::CallRecord, observe::RankRecords;

namespace {

constexpr JsonRules kEvidenceRules{.what = "cannot read what a rank tells of a hang",
                                   .hint = "run daemon and driver from the same build"};

}  // namespace

HangRank hang_rank(const observe::BoardReader& board, bool alive) {
  // The time is read last, so that nothing on the board is newer.
  HangRank rank{.progress = board.progress(), .calls = board.calls(), .alive = alive};
  rank.seen_ns = monotonic_ns();
  return rank;
}

RankRecords essential(RankRecords calls, size_t last) {
  const size_t size = calls.calls.size();
  // For each group, of its collective calls and its exchanges: the last call shows how far the rank has come,
  // however rare the calls are.
  std::map<std::pair<size_t, bool>, size_t> newest;
  const auto place = [](const CallRecord& call) {
    return std::pair(call.group, call.kind == observe::CallKind::kExchange);
  };
  for (size_t i = 0; i < size; ++i) newest[place(calls.calls[i])] = i;
  std::vector<CallRecord> kept;
  for (size_t i = 0; i < size; ++i) {
    const bool is_newest = newest.at(place(calls.calls[i])) == i;
    if (i + last >= size || calls.calls[i].ended_ns == 0 || is_newest)
      kept.push_back(std::move(calls.calls[i]));
  }
  calls.dropped += static_cast<int64_t>(size - kept.size());
  calls.calls = std::move(kept);
  return calls;
}

std::string hang_evidence(const HangRank& rank) {
  const observe::RankProgress& now = rank.progress;
  const nlohmann::ordered_json object{{"seen_ns", rank.seen_ns},
                                      {"alive", rank.alive},
                                      {"beat_ns", now.beat_ns},
                                      {"progress_ns", now.progress_ns},
                                      {"step", now.step},
                                      {"micro_step", now.micro_step},
                                      {"phase", name_of(now.phase)},
                                      {"phase_since_ns", now.phase_since_ns},
                                      {"phase_at", now.phase_at},
                                      {"task_phase", now.task_phase.name},
                                      {"task_done", now.task_phase.done},
                                      {"task_whole", now.task_phase.whole},
                                      {"error_code", now.error_code},
                                      {"ended", now.ended},
                                      {"threads", rank.threads},
                                      {"calls", to_json(essential(rank.calls))}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

HangRank hang_rank_from(std::string_view evidence, const std::string& where) {
  const nlohmann::json root = parse_json(evidence, where, kEvidenceRules);
  const JsonView view(root, where + ":", kEvidenceRules);
  HangRank rank{.seen_ns = view.at("seen_ns").integer(0), .alive = view.at("alive").boolean()};
  rank.calls = observe::rank_records(root.at("calls").dump(), where);
  const auto phase = observe::rank_phase_named(view.at("phase").string());
  view.require(phase.has_value(), "the name of a phase");
  rank.progress = {.rank = rank.calls.rank,
                   .beat_ns = view.at("beat_ns").integer(0),
                   .progress_ns = view.at("progress_ns").integer(0),
                   .step = view.at("step").integer(-1),
                   .micro_step = view.at("micro_step").integer(-1),
                   .phase = *phase,
                   .phase_since_ns = view.at("phase_since_ns").integer(0),
                   .phase_at = view.at("phase_at").string(),
                   .task_phase = {.name = view.at("task_phase").string(),
                                  .done = view.at("task_done").integer(0),
                                  .whole = view.at("task_whole").integer(0)},
                   .error_code = view.at("error_code").integer(0),
                   .ended = view.at("ended").boolean()};
  const JsonView threads = view.at("threads");
  for (size_t i = 0; i < threads.array_size(); ++i) rank.threads.push_back(threads.at(i).string());
  return rank;
}

}  // namespace longhaul::detect
