#include "optim/outer/outer_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace longhaul::optim {
namespace {

int64_t steps_for(double seconds, double step_s) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(seconds / step_s)));
}

}  // namespace

OuterChoice choose_every(bool hidden, double step_s, double exchange_s, double update_s, int64_t left,
                         int64_t fragments) {
  OuterChoice choice{.step_s = step_s, .exchange_s = exchange_s, .update_s = update_s};
  const std::string times =
      fmt::format("an exchange takes {}, a step {}", duration_text(exchange_s), duration_text(step_s));
  // What cannot be hidden, weights, may take a thirtieth of the time; what blocks, a twentieth.
  const int64_t hiding = steps_for(1.15 * exchange_s, step_s), working = steps_for(30 * update_s, step_s);
  if (hidden) {
    choice.every = std::max(hiding, working);
    choice.reason =
        times + (hiding >= working ? ", behind which it is hidden with a seventh to spare"
                                   : fmt::format("; moving weights takes {}, a thirtieth of a round",
                                                 duration_text(update_s)));
  } else {
    choice.every = steps_for(20 * (exchange_s + update_s), step_s);
    choice.reason = times + ", of which nothing is hidden: a twentieth of a round";
  }
  choice.every = (choice.every + fragments - 1) / fragments * fragments;
  const int64_t most = std::max(fragments, left / 2 / fragments * fragments);
  if (choice.every > most) {
    choice.reason += fmt::format("; {} would be right, and half of the steps that are left are {}",
                                 choice.every, left / 2);
    choice.every = most;
  }
  return choice;
}

}  // namespace longhaul::optim
