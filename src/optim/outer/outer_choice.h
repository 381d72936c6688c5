// Chooses how many steps workers train between two exchanges when optim.outer_every is 0
// (docs/sources/co2.md §4), from measured times: the fewest steps that hide an exchange, or that make it a
// small part of the time. Pure arithmetic.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul::optim {

struct OuterChoice {
  int64_t every = 0;
  double step_s = 0, exchange_s = 0, update_s = 0;  // the longest of any rank
  std::string reason;
};

// `left`: steps of the run that are still to come. When weights are sent in `fragments`, in turn, the
// result is a multiple of `fragments`, and exchange_s is the time for all fragments.
OuterChoice choose_every(bool hidden, double step_s, double exchange_s, double update_s, int64_t left,
                         int64_t fragments = 1);

}  // namespace longhaul::optim
