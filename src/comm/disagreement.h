// compare_records: what several ranks' CallLogs say together: that all did the same, or who did not. Two uses:
//
//   after a failure   the ranks' files calls-<rank>.json: "rank 3 never came to all_reduce 'loss' (call 812) of 'world/dp 0'", and who waits for whom
//   of a dry run      (fake.h): the members of each group call the same, in the same order; sizes fit pairwise; every message has its other end
//
// Ranks may be left out: what is there is compared. Source: docs/sources/reliability.md §5.8.
#pragma once

#include <string>
#include <vector>

#include "comm/wrappers/call_log.h"

namespace longhaul::comm {

struct Disagreement {
  enum class Kind {
    kMembers,  // ranks have other lists of a group's members
    kCalls,    // calls of one number differ
    kMissing,  // ranks never came to a call that others started
    kSizes,    // rows that one sends are not those that the other receives; a message likewise
    kPartner,  // a message without its other end
  };
  Kind kind = Kind::kCalls;
  std::string group;           // path
  std::string call;            // "all_reduce 'loss' (call 812)"
  std::vector<int64_t> ranks;  // of the world: who differ from most, who are missing, the two of a pair
  std::string text;            // one line: all of it for a person
};

struct Comparison {
  std::vector<Disagreement> disagreements;  // at most one a group and kind: its first
  // Of the missing ranks those that wait for nobody: where to look first. If all of them wait, they wait in a circle.
  std::vector<int64_t> suspects;
  bool circle = false;
  int64_t groups = 0, whole_groups = 0;  // compared; with the records of all members
  int64_t calls = 0;                     // of all ranks

  bool agreed() const { return disagreements.empty(); }
  std::string text() const;  // some lines
};

Comparison compare_records(const std::vector<RankRecords>& ranks);

// Of a failed run, from the files that its ranks have left in its folder; empty: none has.
std::string summary_of_calls(const std::filesystem::path& run_folder);

}  // namespace longhaul::comm
