// SlowRanks: stragglers among the ranks of a run that goes on, from the times of phases that beats carry (messages.h, RankBeat): what detect/straggler/straggler.h
// finds in them. Steps of a generation that all its ranks have told of are looked at. One thread.
#pragma once

#include <cstdint>
#include <deque>
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
  bool first = true;  // not told of in this generation before
  double lost_s = 0;  // by the others, who waited for it: of this generation until now
};

class SlowRanks {
 public:
  explicit SlowRanks(int64_t stages) : stages_(stages) {}  // of the pipeline: ranks of one stage are peers
  void see(const std::string& node, const RankBeat& beat);
  std::vector<SlowRank>
  look();  // slow by themselves now, those that cost most first; who only has more work or late data is not among them

 private:
  static constexpr size_t kSteps = 256;  // that are kept
  struct Told {
    double seconds = 0;
    detect::RankTimes times;
  };
  detect::StepTimes times() const;

  int64_t stages_, generation_ = 0;
  std::map<int64_t, std::string> nodes_;                // by rank
  std::map<int64_t, std::map<int64_t, Told>> by_step_;  // and rank
  std::map<int64_t, double> lost_s_;                    // of those that were told of, by rank
  int64_t looked_at_ = 0;                               // step
};

}  // namespace longhaul::control
