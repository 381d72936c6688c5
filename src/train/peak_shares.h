// PeakShares: the shares of the machine's measured peak in a step's report (MFU, HFU). The peak is what a
// benchmark reached, perhaps beside other programs; a step that computes faster shows that the machine can do
// more. Such a step raises the peak to its own rate and says so in its report, so no share is above 1. MFU
// with full attention counts work of which half is never done; where it would be above 1, it is left out.
#pragma once

#include "observe/events/event.h"

namespace longhaul::train {

struct FlopsOfToken {
  double causal = 0;          // model FLOPs, forward and backward; 0: no shares
  double full_attention = 0;  // the other convention (plan/flops.h)
  double again = 0;           // repeated by recomputation
};

class PeakShares {
 public:
  PeakShares(const FlopsOfToken& flops, double peak_flops_per_second)
      : flops_(flops), peak_(peak_flops_per_second) {}
  void set(const FlopsOfToken& flops) { flops_ = flops; }  // of the steps from now on
  void tell(observe::StepReport& report);                  // by its tokens_per_second

 private:
  FlopsOfToken flops_;
  double peak_;  // 0: not measured
};

}  // namespace longhaul::train
