// SlowRanks finds stragglers among the ranks of a running job, from the phase times in their heartbeats
// (messages.h, RankBeat), with the method of detect/straggler/straggler.h. A step is looked at when all ranks
// of the generation have reported it. For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "control/wire/messages.h"
#include "detect/straggler/straggler.h"

namespace longhaul::control {

struct SlowRank {
  int64_t rank = 0;
  std::string node;
  std::string text;   // "rank 3 computes 12 % longer than its peers"
  bool first = true;  // not reported in this generation before
  double lost_s = 0;  // seconds that the other ranks have waited for it in this generation until now
};

class SlowRanks {
 public:
  // `stage_of`: the stage of the pipeline of a rank among so many. Ranks of one stage are peers.
  using StageOf = std::function<int64_t(int64_t rank, int64_t ranks)>;
  explicit SlowRanks(StageOf stage_of) : stage_of_(std::move(stage_of)) {}
  void see(const std::string& node, const RankBeat& beat);
  std::vector<SlowRank>
  // Ranks that are slow by themselves now, the costliest first. A rank that only has more work or late data
  // is not among them.
  look();

 private:
  static constexpr size_t kSteps = 256;  // number of steps that are kept
  struct Told {
    double seconds = 0;
    detect::RankTimes times;
  };
  detect::StepTimes times() const;

  StageOf stage_of_;
  int64_t generation_ = 0;
  std::map<int64_t, std::string> nodes_;                // by rank
  std::map<int64_t, std::map<int64_t, Told>> by_step_;  // by step and rank
  std::map<int64_t, double> lost_s_;                    // of the ranks that were reported, by rank
  int64_t looked_at_ = 0;                               // a step
};

}  // namespace longhaul::control
