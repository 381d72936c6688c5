// The event-driven product: what a spiking machine would do, on a CPU, to see what skipping zeros is worth.
// Weights lie by input, and each event adds one row of them: nothing is done where there is no spike. The
// results are those of integer_product.h but for the order of fp32's sums.
//
//   counts   an event for each count that is not 0: sums += count · row
//   spikes   an event for each binary digit of its size: sums += ±(row << digit), as signed bits
#pragma once

#include "kernels/spikes/group_weight.h"

namespace longhaul::kernels {

enum class Events { kCounts, kSpikes };

// The first expert of a GroupWeight, by input.
class EventWeight {
 public:
  explicit EventWeight(const GroupWeight& weight);
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  const Tensor& values() const { return q_io_; }      // int8 [in, out]
  const Tensor& scales() const { return scale_go_; }  // fp32 [groups, out]

 private:
  int64_t in_, out_;
  Tensor q_io_, scale_go_;
};

struct EventResult {
  Tensor y_to;         // fp32
  int64_t events = 0;  // over all tokens: rows that were added
};
// x [tokens, in], bf16 or fp32 on the CPU. No gradient.
EventResult event_linear(const Tensor& x_ti, double k, const EventWeight& weight, Events events);

}  // namespace longhaul::kernels
