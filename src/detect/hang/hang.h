// analyse_hang: who keeps a run that stands still from going on, from what its ranks' boards say while they hang (observe/board/rank_board.h), or from
// the calls that a failed run has left. Nobody is asked anything: a rank that is stopped is told of by its board and by the others.
//
// Every rank that waits in a call waits for the members of the group that have not come to it. Whoever is waited for and waits for nobody is where to look:
//
//   frozen       its process does not even beat: stopped, or its machine is
//   missing      it never came to a call that others wait in, and waits for nobody itself
//   disagrees    it made another call than the others under the same number
//   not started  it asked for the call, its back end never took it: a stuck stream or device
//   network      all came and the call does not end: what lies between them
//   deadlock     all who are missing wait for others, in a circle
//   computing    nobody waits for anybody: whoever has not moved for longest
//
// Source: docs/sources/reliability.md §5.8 (a)–(d) and the walk over groups; docs/sources/megascale.md §5 (three-dimensional localisation).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "observe/board/rank_board.h"

namespace longhaul::detect {

struct HangRank {
  observe::RankProgress progress;  // of records alone: its rank, and no times
  observe::RankRecords calls;
  int64_t seen_ns = 0;               // monotonic_ns() of its machine when the board was read; 0: there is no board, so no time is known
  bool alive = true;                 // its process is there
  std::vector<std::string> threads;  // what they are at (detect/hang/stack_text.h), where that was asked
};
HangRank hang_rank(const observe::BoardReader& board, bool alive = true);  // now, without threads

// A rank's part of the analysis, for where those of all nodes come together: some 100 KiB, with its essential() calls.
std::string hang_evidence(const HangRank& rank);
HangRank hang_rank_from(std::string_view evidence, const std::string& where);  // kData error of what is not one

enum class HangKind : uint8_t { kNone, kDead, kFrozen, kDisagrees, kMissing, kNotStarted, kNetwork, kDeadlock, kComputing };
std::string_view name_of(HangKind kind);  // "missing"

struct HangWait {
  int64_t rank = 0;
  std::string group, call;         // "world/dp 0", "all_reduce 'loss' (call 812)"
  double seconds = 0;              // so far; 0: unknown
  std::vector<int64_t> for_ranks;  // of the world; empty: all came
  std::vector<int64_t> unknown;    // of members that tell nothing
  bool operator==(const HangWait&) const = default;
};

struct HangSuspect {
  int64_t rank = 0;
  std::string group, call;           // that it keeps others in, or is in itself; empty: none
  std::string text;                  // one line: what it does instead
  int64_t waiting = 0;               // ranks that wait for it, directly or through others
  std::vector<std::string> threads;  // HangRank::threads
};

struct HangReport {
  HangKind kind = HangKind::kNone;
  std::vector<HangSuspect> suspects;  // the likeliest first
  std::vector<HangWait> waits;        // by rank
  std::vector<int64_t> circle;        // of a deadlock: each waits for the next, the last for the first
  std::vector<int64_t> ranks;         // that told something
  std::string text() const;           // lines for a person
};

struct HangLimits {
  double frozen_s = 3;  // without a beat: one comes each second
};
HangReport analyse_hang(const std::vector<HangRank>& ranks, const HangLimits& limits = {});

// Whom somebody has waited for that long, of those who do not wait that long themselves: of a run that goes on, where threads beside training hang.
std::vector<int64_t> waited_for_long(const HangReport& report, double seconds);

// What those ranks are at, of whom nobody stands out: the calls in which they have stood that long, then their threads; ranks at the same place
// together. For people.
std::string standing_text(const HangReport& report, const std::vector<HangRank>& ranks, const std::vector<int64_t>& of, double seconds);

// Of a run on this machine, live or after its end: from its ranks' boards, with the stacks of the likeliest suspects' threads (stack_text.h); where
// there are none, from the calls that a failed run has left.
HangReport hang_of_run(const std::filesystem::path& run_folder);

// What of a rank's calls must be told to find out: those that have not ended, the last ones, and each group's last. For messages of limited size.
observe::RankRecords essential(observe::RankRecords calls, size_t last = 64);

nlohmann::ordered_json to_json(const HangReport& report);

}  // namespace longhaul::detect
