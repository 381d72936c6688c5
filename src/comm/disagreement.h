// compare_records: compares the CallLogs of several ranks and says whether all made the same calls, or
// which ranks did not. It has two uses:
//
//   after a failure   the ranks' files calls-<rank>.json: "rank 3 never came to all_reduce 'loss' (call
//                     812) of 'world/dp 0'", and which rank waits for which
//   of a dry run      (fake.h): the members of each group make the same calls in the same order; sizes fit
//                     pairwise; every message has a receiver
//
// Some ranks may be missing: the records that exist are compared. Source: docs/sources/reliability.md §5.8.
#pragma once

#include <string>
#include <vector>

#include "comm/wrappers/call_log.h"

namespace longhaul::comm {

struct Disagreement {
  enum class Kind {
    kMembers,  // ranks have different lists of a group's members
    kCalls,    // calls of one number differ
    kMissing,  // ranks never came to a call that others started
    kSizes,    // the rows (or message) that one rank sends do not match what the other receives
    kPartner,  // a message without a matching send or receive
  };
  Kind kind = Kind::kCalls;
  std::string group;  // the group's path
  std::string call;   // "all_reduce 'loss' (call 812)"
  // Ranks of the world: those that differ from the majority, those that are missing, or the two of a pair.
  std::vector<int64_t> ranks;
  std::string text;  // one line for people that says everything
};

struct Comparison {
  std::vector<Disagreement> disagreements;  // at most one for each group and kind: the first
  // The missing ranks that wait for no other rank: where to look first. If all of them wait, they wait in a
  // cycle.
  std::vector<int64_t> suspects;
  bool circle = false;
  int64_t groups = 0, whole_groups = 0;  // groups compared; groups with the records of all members
  int64_t calls = 0;                     // of all ranks

  bool agreed() const { return disagreements.empty(); }
  std::string text() const;  // some lines
};

Comparison compare_records(const std::vector<RankRecords>& ranks);

// The summary for a failed run, from the files that its ranks have left in its folder; empty: there are
// none.
std::string summary_of_calls(const std::filesystem::path& run_folder);

}  // namespace longhaul::comm
