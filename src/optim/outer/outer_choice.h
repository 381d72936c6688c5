// How many steps workers train between two exchanges where optim.outer_every is 0 (docs/sources/co2.md §4): as few as hide an exchange, or make it a small part of
// the time, from times that were measured. Pure arithmetic.
#pragma once

#include <cstdint>
#include <string>

namespace longhaul::optim {

struct OuterChoice {
  int64_t every = 0;
  double step_s = 0, exchange_s = 0, update_s = 0;  // the longest of any rank
  std::string reason;
};

// `left`: steps of the run that are to come. `fragments` of weights are sent in turn: a multiple of them; an exchange is that of all.
OuterChoice choose_every(bool hidden, double step_s, double exchange_s, double update_s, int64_t left, int64_t fragments = 1);

}  // namespace longhaul::optim
