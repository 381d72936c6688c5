// What a schedule does when it is run, without running it: how long it takes, what it holds, and whether it is right. Both walk the lists as the
// executor does: a wait for a receive ends when the tensor was sent and has arrived, a wait for a send when its receive has started.
#pragma once

#include <string>
#include <vector>

#include "layout/schedule/schedule.h"

namespace longhaul::layout {

// Of one micro-batch on all that a rank holds of the model, in any unit: a schedule with v stages on a rank takes 1/v for each.
struct PassCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double transfer = 0;  // from the start of a send, or of its receive if that is later, to its arrival
  // Of a forward pass, and as much of one of inputs, what waits for experts' rows. A pair in turns takes as long as both passes compute, or exchange.
  double exchange = 0;
  double in_turns() const;  // the share of its passes' times that such a pair takes
};

struct PassSpan {
  Action action;
  double begin = 0, end = 0;
  bool in_turns = false;  // with the other pass of its pair
};

struct Timeline {
  double makespan = 0;
  std::vector<std::vector<PassSpan>> ranks;  // passes
  std::vector<double> busy;                  // of each rank
  std::vector<int64_t> peak_in_flight;       // activations held at once: (micro-batch, chunk) from forward to last gradient
  double bubble = 0;                         // share of makespan × ranks in which nothing is computed
};

// Of a schedule without flaws.
Timeline simulate(const Schedule& schedule, const PassCosts& costs = {});

// Empty when it is right, else the first mistake: a rank that waits for ever, a pass that lacks what it needs or comes twice or never, sends and
// receives that do not meet in order, a tensor never waited for, more activations than `most_in_flight`.
std::string flaw_of(const Schedule& schedule);

}  // namespace longhaul::layout
