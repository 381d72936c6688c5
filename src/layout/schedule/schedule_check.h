// Analyses a schedule without running it: how long it takes, what it holds, and whether it is correct. Both
// functions walk the lists as the executor does: a wait for a receive ends when the tensor was sent and has
// arrived, a wait for a send when its receive has started.
#pragma once

#include <string>
#include <vector>

#include "layout/schedule/schedule.h"

namespace longhaul::layout {

// PassCosts: for one micro-batch on all layers of a rank, in any unit: with v stages on a rank each takes
// 1/v.
struct PassCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double transfer = 0;  // from the start of a send, or of its receive if that is later, to the arrival
  // The part of a forward pass, and equally of a backward pass for inputs, that waits for experts' rows. A
  // pair in turns takes as long as both passes compute, or exchange, whichever is longer.
  double exchange = 0;
  double in_turns() const;  // the share of its passes' times that such a pair takes
};

struct PassSpan {
  Action action;
  double begin = 0, end = 0;
  bool in_turns = false;  // in turns with the other pass of its pair
};

struct Timeline {
  double makespan = 0;
  std::vector<std::vector<PassSpan>> ranks;  // passes
  std::vector<double> busy;                  // of each rank
  // Most activations held at once: (micro-batch, chunk) from forward pass to last gradient.
  std::vector<int64_t> peak_in_flight;
  double bubble = 0;  // share of makespan × ranks in which nothing is computed
};

// The schedule must be without flaws.
Timeline simulate(const Schedule& schedule, const PassCosts& costs = {});

// How messages find their way. kIndependent: each by itself. The others: all that a rank starts in one of its
// queues goes in the order of starts, so that a message whose partner has not come holds up those started
// later, as in a communicator of NCCL; the queue is that of a channel, or that of a way (MessageWay).
enum class Messages : uint8_t { kIndependent, kInOrderByChannel, kInOrderByWay };

// Empty when the schedule is correct, else the first mistake: a rank that waits for ever, a pass that lacks
// its input or comes twice or never, sends and receives in different orders, a tensor for which nobody waits,
// more activations than `most_in_flight`.
std::string flaw_of(const Schedule& schedule, Messages messages = Messages::kIndependent);

}  // namespace longhaul::layout
