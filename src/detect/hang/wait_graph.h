// WaitGraph: which rank waits in which call for which others, in all groups of a run, computed from the call
// records of its ranks. detect/hang/hang.h uses it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "observe/board/call_records.h"

namespace longhaul::detect {

// StandingCall: a call in which a rank stands still.
struct StandingCall {
  int64_t rank = 0;
  const observe::CallRecord* call = nullptr;
  const observe::GroupPlace* place = nullptr;
  std::vector<int64_t> missing;      // members that never entered it
  std::vector<int64_t> not_started;  // members that entered it, but whose back end has not started it
  std::vector<int64_t> unknown;      // members that report nothing
  std::vector<int64_t> others;       // members that made another call
};

class WaitGraph {
 public:
  explicit WaitGraph(const std::vector<const observe::RankRecords*>& ranks);

  const std::vector<StandingCall>& standing() const { return standing_; }
  bool waits(int64_t rank) const { return edges_.contains(rank) || stuck_.contains(rank); }
  bool knows(int64_t rank) const { return known_.contains(rank); }
  std::set<int64_t> ends() const;                        // ranks that are waited for and wait for no rank
  std::vector<int64_t> waiting_for(int64_t rank) const;  // directly or through others
  std::vector<int64_t> circle() const;                   // empty: there is none

 private:
  struct Member {
    std::map<int64_t, const observe::CallRecord*> collectives;  // by sequence
    // By peer (of the world), direction and number.
    std::map<std::tuple<int64_t, observe::Direction, int64_t>, const observe::CallRecord*> messages;
    bool dropped = false;
  };
  enum class Came { kYes, kNo, kUnknown };

  void index(const observe::RankRecords& rank);
  void stand(const observe::RankRecords& rank, const observe::CallRecord& call);
  std::pair<Came, const observe::CallRecord*> collective_of(const std::string& path, int64_t member,
                                                            int64_t sequence) const;
  std::pair<Came, const observe::CallRecord*> message_of(const std::string& path, int64_t member,
                                                         int64_t peer, observe::Direction direction,
                                                         int64_t number) const;

  std::map<std::pair<std::string, int64_t>, Member> members_;  // by group and rank
  // stuck_: the rank stands in a call that all members have entered
  std::set<int64_t> known_, stuck_;
  std::map<int64_t, std::set<int64_t>> edges_;
  std::vector<StandingCall> standing_;
};

}  // namespace longhaul::detect
