// analyse_hang finds which rank keeps a run that stands still from going on. It reads what the boards of the
// ranks say while they hang (observe/board/rank_board.h), or the call records that a failed run has left. No
// rank is asked anything: a stopped rank is known from its board and from the other ranks.
//
// Every rank that waits in a call waits for those members of the group that have not entered the call. A rank
// that is waited for and does not wait itself is a suspect, of one of these kinds:
//
//   frozen       the process sends no heartbeats: it is stopped, or its machine is
//   missing      the rank never entered a call in which others wait, and waits in no call itself
//   disagrees    the rank made another call than the others under the same number
//   not started  the rank requested the call, but its back end never started it: a stuck stream or device
//   network      all ranks entered the call and it does not end: the network between them is at fault
//   deadlock     all missing ranks wait for others, in a circle
//   computing    no rank waits for another: the suspect is the one without progress for longest
//
// Source: docs/sources/reliability.md §5.8 (a)–(d) and the walk over groups; docs/sources/megascale.md §5
// (three-dimensional localisation).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "observe/board/rank_board.h"

namespace longhaul::detect {

struct HangRank {
  observe::RankProgress progress;  // with call records only: just its rank, and no times
  observe::RankRecords calls;
  // monotonic_ns() of its machine when the board was read; 0: there is no board, so no time is known.
  int64_t seen_ns = 0;
  bool alive = true;  // its process exists
  // Stacks of its threads (detect/hang/stack_text.h), if they were asked for.
  std::vector<std::string> threads;
};
HangRank hang_rank(const observe::BoardReader& board, bool alive = true);  // the state now, without stacks

// Serialises a rank's part of the analysis for the place where those of all nodes are collected: some 100
// KiB, with the calls that essential() keeps.
std::string hang_evidence(const HangRank& rank);
// kData error where the text is no evidence.
HangRank hang_rank_from(std::string_view evidence, const std::string& where);

enum class HangKind : uint8_t {
  kNone,
  kDead,
  kFrozen,
  kDisagrees,
  kMissing,
  kNotStarted,
  kSilent,
  kNetwork,
  kDeadlock,
  kComputing
};
std::string_view name_of(HangKind kind);  // "missing"

struct HangWait {
  int64_t rank = 0;
  std::string group, call;         // "world/dp 0", "all_reduce 'loss' (call 812)"
  double seconds = 0;              // seconds so far; 0: unknown
  std::vector<int64_t> for_ranks;  // world ranks that are waited for; empty: all have entered the call
  std::vector<int64_t> unknown;    // members that report nothing
  bool operator==(const HangWait&) const = default;
};

struct HangSuspect {
  int64_t rank = 0;
  // The call in which it keeps others waiting, or in which it is itself; empty: none.
  std::string group, call;
  std::string text;                  // one line: what it does instead
  int64_t waiting = 0;               // number of ranks that wait for it, directly or through others
  std::vector<std::string> threads;  // HangRank::threads
};

struct HangReport {
  HangKind kind = HangKind::kNone;
  std::vector<HangSuspect> suspects;  // the likeliest first
  std::vector<HangWait> waits;        // sorted by rank
  std::vector<int64_t> circle;        // for a deadlock: each waits for the next, the last for the first
  std::vector<int64_t> ranks;         // those that reported something
  std::string text() const;           // several lines, for a person
};

struct HangLimits {
  double frozen_s = 3;  // without a heartbeat; one is sent every second
};
HangReport analyse_hang(const std::vector<HangRank>& ranks, const HangLimits& limits = {});

// The ranks for which some rank has waited at least `seconds`, except those that wait that long themselves.
// For a run that goes on while its background threads hang.
std::vector<int64_t> waited_for_long(const HangReport& report, double seconds);

// Describes for people what the ranks `of` do when none of them stands out: the calls in which they have
// stood for at least `seconds`, then their threads; ranks at the same place are described together.
std::string standing_text(const HangReport& report, const std::vector<HangRank>& ranks,
                          const std::vector<int64_t>& of, double seconds);

// Analyses a run on this machine, while it runs or after its end, from the boards of its ranks, with the
// stacks of the likeliest suspects (stack_text.h). Where there are no boards it uses the call records that a
// failed run has left.
HangReport hang_of_run(const std::filesystem::path& run_folder);

// Selects the calls of a rank that the analysis needs: those that have not ended, the last ones, and the last
// of each group. It is for messages of limited size.
observe::RankRecords essential(observe::RankRecords calls, size_t last = 64);

nlohmann::ordered_json to_json(const HangReport& report);

}  // namespace longhaul::detect
