#include "detect/hang/hang.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "detect/hang/wait_graph.h"

namespace longhaul::detect {

using observe::CallRecord, observe::RankPhase, observe::RankRecords;

namespace {

std::string ranks_named(const std::vector<int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

double seconds_since(const HangRank& rank, int64_t then_ns) {
  return rank.seen_ns == 0 || then_ns == 0 ? 0 : static_cast<double>(rank.seen_ns - then_ns) * 1e-9;
}

class Analysis {
 public:
  Analysis(const std::vector<HangRank>& ranks, const HangLimits& limits)
      : limits_(limits), graph_(records_of(ranks)) {
    for (const HangRank& rank : ranks) ranks_[rank.calls.rank] = &rank;
  }

  HangReport run() {
    for (const auto& [rank, of] : ranks_) report_.ranks.push_back(rank);
    note_waits();
    // The most informative first.
    (void)(find_dead() || find_frozen() || find_disagreement() || find_ends() || find_circle() ||
           find_silent() || find_network() || find_slowest());
    std::ranges::stable_sort(report_.suspects, std::ranges::greater(), [this](const HangSuspect& each) {
      return std::pair(each.waiting, standstill(each.rank));
    });
    return std::move(report_);
  }

 private:
  static std::vector<const RankRecords*> records_of(const std::vector<HangRank>& ranks) {
    std::vector<const RankRecords*> records;
    for (const HangRank& rank : ranks) records.push_back(&rank.calls);
    return records;
  }
  const HangRank& of(int64_t rank) const { return *ranks_.at(rank); }
  double standstill(int64_t rank) const {
    return graph_.knows(rank) ? seconds_since(of(rank), of(rank).progress.progress_ns) : 0;
  }

  void note_waits() {
    for (const StandingCall& each : graph_.standing()) {
      HangWait wait{.rank = each.rank,
                    .group = each.place->path,
                    .call = label(*each.call),
                    .seconds = seconds_since(of(each.rank), each.call->awaited_ns),
                    .for_ranks = each.missing,
                    .unknown = each.unknown};
      wait.for_ranks.insert(wait.for_ranks.end(), each.not_started.begin(), each.not_started.end());
      report_.waits.push_back(std::move(wait));
    }
  }

  // The call in which it keeps others waiting: one that it requested itself says more than a later one.
  const StandingCall* kept_by(int64_t rank) const {
    const StandingCall* found = nullptr;
    for (const StandingCall& each : graph_.standing()) {
      if (std::ranges::count(each.not_started, rank) > 0) return &each;
      if (found == nullptr && std::ranges::count(each.missing, rank) > 0) found = &each;
    }
    return found;
  }

  // "in forward for 12.3 s (src/parallel/pipeline/pipeline.cpp:65), after step 811"
  std::string doing(int64_t rank) const {
    const HangRank& it = of(rank);
    if (it.seen_ns == 0) return last_call(it.calls);
    std::string text =
        fmt::format("in {} for {}", observe::phase_text(name_of(it.progress.phase), it.progress.task_phase),
                    duration_text(seconds_since(it, it.progress.phase_since_ns)));
    if (!it.progress.phase_at.empty()) text += fmt::format(" ({})", it.progress.phase_at);
    if (it.progress.step >= 0) text += fmt::format(", after step {}", it.progress.step);
    if (it.progress.micro_step >= 0) text += fmt::format(", micro-batch {}", it.progress.micro_step);
    return text + "; " + last_call(it.calls);
  }

  static std::string last_call(const RankRecords& calls) {
    if (calls.calls.empty()) return "it made no call";
    const CallRecord& last = calls.calls.back();
    return fmt::format("its last call is {} of '{}', {}", label(last), calls.groups[last.group].path,
                       name_of(last.state));
  }

  void suspect(int64_t rank, const std::string& what) {
    HangSuspect found{
        .rank = rank, .text = fmt::format("rank {} {}", rank, what), .threads = of(rank).threads};
    found.waiting = static_cast<int64_t>(graph_.waiting_for(rank).size());
    if (const StandingCall* call = kept_by(rank)) {
      found.group = call->place->path;
      found.call = label(*call->call);
    }
    report_.suspects.push_back(std::move(found));
  }

  bool decided(HangKind kind) {
    if (report_.suspects.empty()) return false;
    report_.kind = kind;
    return true;
  }

  bool find_dead() {
    for (const auto& [rank, it] : ranks_) {
      if (!it->alive && !(it->progress.ended && it->progress.error_code == 0))
        suspect(rank, fmt::format("has died: {}", doing(rank)));
    }
    return decided(HangKind::kDead);
  }

  bool find_frozen() {
    for (const auto& [rank, it] : ranks_) {
      const double silent = seconds_since(*it, it->progress.beat_ns);
      if (silent > limits_.frozen_s && !it->progress.ended)
        suspect(
            rank,
            fmt::format("does not even beat, for {}: its process is stopped, or gets no processor; it was {}",
                        duration_text(silent), doing(rank)));
    }
    return decided(HangKind::kFrozen);
  }

  // Ranks have made different calls under one number: those that differ from most are named.
  bool find_disagreement() {
    for (const StandingCall& each : graph_.standing()) {
      if (each.others.empty()) continue;
      const size_t came = each.place->top_ranks.size() - each.missing.size() - each.unknown.size();
      if (each.others.size() * 2 > came) continue;  // this rank itself differs, and others show that
      for (const int64_t rank : each.others) {
        if (std::ranges::count(report_.suspects, rank, &HangSuspect::rank) > 0) continue;
        suspect(rank, fmt::format("made another call than the others, who stand in {} of '{}': {}",
                                  label(*each.call), each.place->path, doing(rank)));
        report_.suspects.back().group = each.place->path;
        report_.suspects.back().call = label(*each.call);
      }
    }
    return decided(HangKind::kDisagrees);
  }

  bool find_ends() {
    HangKind kind = HangKind::kNotStarted;
    for (const int64_t rank : graph_.ends()) {
      if (!graph_.knows(rank)) continue;
      const StandingCall& call = *kept_by(rank);
      const bool missing = std::ranges::count(call.missing, rank) > 0;
      if (missing) kind = HangKind::kMissing;
      suspect(rank, fmt::format("{} {} of '{}' and waits for nobody: {}",
                                missing ? "never came to" : "asked for, but its back end never took,",
                                label(*call.call), call.place->path, doing(rank)));
    }
    return decided(kind);
  }

  bool find_circle() {
    report_.circle = graph_.circle();
    for (const int64_t rank : report_.circle) {
      for (const StandingCall& each : graph_.standing()) {
        if (each.rank != rank) continue;
        suspect(rank, fmt::format("waits in {} of '{}' for {}", label(*each.call), each.place->path,
                                  ranks_named(each.missing)));
        break;
      }
    }
    return decided(HangKind::kDeadlock);
  }

  // All who tell anything have come, so the others wait for those of whom nothing is known: their machine
  // gives no evidence.
  bool find_silent() {
    for (const StandingCall& each : graph_.standing()) {
      if (!each.missing.empty() || !each.not_started.empty()) continue;
      for (const int64_t rank : each.unknown) {
        if (ranks_.contains(rank) || std::ranges::count(report_.suspects, rank, &HangSuspect::rank) > 0)
          continue;
        report_.suspects.push_back(
            {.rank = rank,
             .group = each.place->path,
             .call = label(*each.call),
             .text = fmt::format("rank {} tells nothing; all that tell anything have come to {} of '{}'",
                                 rank, label(*each.call), each.place->path),
             .waiting = std::ranges::count_if(
                 graph_.standing(),
                 [&](const StandingCall& call) { return std::ranges::count(call.unknown, rank) > 0; }),
             .threads = {}});
      }
    }
    return decided(HangKind::kSilent);
  }

  // All members entered it, and it does not end.
  bool find_network() {
    for (const StandingCall& each : graph_.standing()) {
      if (!each.missing.empty() || !each.not_started.empty()) continue;
      suspect(each.rank,
              fmt::format("stands in {} of '{}', which {}", label(*each.call), each.place->path,
                          each.unknown.empty() ? "all have come to"
                                               : "all that tell anything have come to; nothing is known of " +
                                                     ranks_named(each.unknown)));
      report_.suspects.back().group = each.place->path;
      report_.suspects.back().call = label(*each.call);
    }
    return decided(HangKind::kNetwork);
  }

  bool find_slowest() {
    std::optional<int64_t> slowest;
    for (const auto& [rank, it] : ranks_) {
      if (!it->progress.ended && it->seen_ns != 0 && (!slowest || standstill(rank) > standstill(*slowest)))
        slowest = rank;
    }
    if (slowest)
      suspect(*slowest,
              fmt::format("has not moved for {}: {}", duration_text(standstill(*slowest)), doing(*slowest)));
    return decided(HangKind::kComputing);
  }

  HangLimits limits_;
  std::map<int64_t, const HangRank*> ranks_;
  WaitGraph graph_;
  HangReport report_;
};

// Ranks that wait in the same call for the same others are listed together.
std::string waits_text(const std::vector<HangWait>& waits) {
  std::map<std::tuple<std::string, std::string, std::vector<int64_t>, std::vector<int64_t>>,
           std::vector<int64_t>>
      together;
  for (const HangWait& wait : waits)
    together[{wait.group, wait.call, wait.for_ranks, wait.unknown}].push_back(wait.rank);
  std::string text;
  for (const auto& [what, ranks] : together) {
    const auto& [group, call, missing, unknown] = what;
    std::string whom = missing.empty() && unknown.empty() ? "all have come" : "";
    if (!missing.empty()) whom = ranks_named(missing) + " not there";
    if (!unknown.empty())
      whom += fmt::format("{}nothing is known of {}", whom.empty() ? "" : ", ", ranks_named(unknown));
    text += fmt::format("  {} in {} of '{}': {}\n", ranks_named(ranks), call, group, whom);
  }
  return text;
}

// Working threads, which every process has, are named without their numbers. Idle threads wait for work in a
// loop, and threads of other libraries are ignored.
std::string threads_at_work(const std::vector<std::string>& lines) {
  const auto is_head = [](const std::string& line) { return !line.starts_with("  "); };
  std::string text;
  for (size_t at = 0; at < lines.size();) {
    size_t end = at + 1;
    while (end < lines.size() && !is_head(lines[end])) ++end;
    size_t own = at + 1;
    while (own < end && lines[own].find("longhaul::") == std::string::npos) ++own;
    const auto loops = [&](const char* what) {
      return own < end && lines[own].find(what) != std::string::npos;
    };
    const bool idle = own == end || loops("Worker::State::loop") || loops("BoardWriter::State::beat") ||
                      loops("GlooWorld::watch");
    if (!idle || end == at + 1) {  // without frames: it did not answer
      const size_t name = lines[at].starts_with("thread ") ? lines[at].find(" \"") : std::string::npos;
      text += (name == std::string::npos ? lines[at] : "thread" + lines[at].substr(name)) + "\n";
      for (size_t i = at + 1; i < end; ++i) text += lines[i] + "\n";
    }
    at = end;
  }
  return text;
}

}  // namespace

std::string standing_text(const HangReport& report, const std::vector<HangRank>& ranks,
                          const std::vector<int64_t>& of, double seconds) {
  const auto wanted = [&](int64_t rank) { return std::ranges::find(of, rank) != of.end(); };
  std::vector<HangWait> waits;
  std::ranges::copy_if(report.waits, std::back_inserter(waits),
                       [&](const HangWait& wait) { return wanted(wait.rank) && wait.seconds >= seconds; });
  std::map<std::string, std::vector<int64_t>> together;
  for (const HangRank& rank : ranks) {
    if (wanted(rank.calls.rank) && !rank.threads.empty())
      together[threads_at_work(rank.threads)].push_back(rank.calls.rank);
  }
  std::string text = waits.empty() ? "none of them stands in a call\n" : "waiting:\n" + waits_text(waits);
  for (const auto& [threads, who] : together) text += fmt::format("{}:\n{}", ranks_named(who), threads);
  return text;
}

std::string_view name_of(HangKind kind) {
  constexpr std::string_view kNames[] = {"none",        "dead",   "frozen",  "disagrees", "missing",
                                         "not started", "silent", "network", "deadlock",  "computing"};
  return kNames[static_cast<size_t>(kind)];
}

HangReport analyse_hang(const std::vector<HangRank>& ranks, const HangLimits& limits) {
  return Analysis(ranks, limits).run();
}

std::vector<int64_t> waited_for_long(const HangReport& report, double seconds) {
  std::set<int64_t> waiting, waited_for, perhaps;
  for (const HangWait& wait : report.waits) {
    if (wait.seconds < seconds) continue;
    if (!wait.for_ranks.empty() || !wait.unknown.empty()) waiting.insert(wait.rank);
    waited_for.insert(wait.for_ranks.begin(), wait.for_ranks.end());
    if (wait.for_ranks.empty()) perhaps.insert(wait.unknown.begin(), wait.unknown.end());
  }
  if (waited_for.empty()) waited_for = perhaps;  // too many other calls since theirs in this group
  std::vector<int64_t> ranks;
  std::ranges::set_difference(waited_for, waiting, std::back_inserter(ranks));
  return ranks;
}

std::string HangReport::text() const {
  if (kind == HangKind::kNone) return "no rank tells anything\n";
  std::string text;
  for (const HangSuspect& suspect : suspects) {
    text += suspect.text + "\n";
    if (suspect.waiting > 0)
      text += fmt::format("  {} of {} ranks wait for it, directly or through others\n", suspect.waiting,
                          ranks.size());
    for (const std::string& line : suspect.threads) text += "  " + line + "\n";
  }
  if (!circle.empty()) text += fmt::format("a circle: {}\n", fmt::join(circle, " waits for "));
  if (!waits.empty()) text += "waiting:\n" + waits_text(waits);
  return text;
}

nlohmann::ordered_json to_json(const HangReport& report) {
  nlohmann::ordered_json object{
      {"kind", name_of(report.kind)}, {"ranks", report.ranks}, {"circle", report.circle}};
  object["suspects"] = nlohmann::ordered_json::array();
  for (const HangSuspect& each : report.suspects) {
    object["suspects"].push_back({{"rank", each.rank},
                                  {"group", each.group},
                                  {"call", each.call},
                                  {"text", each.text},
                                  {"waiting", each.waiting},
                                  {"threads", each.threads}});
  }
  object["waits"] = nlohmann::ordered_json::array();
  for (const HangWait& each : report.waits) {
    object["waits"].push_back({{"rank", each.rank},
                               {"group", each.group},
                               {"call", each.call},
                               {"seconds", each.seconds},
                               {"for", each.for_ranks},
                               {"unknown", each.unknown}});
  }
  return object;
}

}  // namespace longhaul::detect
