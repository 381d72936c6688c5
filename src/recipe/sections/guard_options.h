// GuardOptions: [guard] of a recipe: what a run does about numbers that are wrong: loss spikes, and processors and memory that silently compute or keep
// something else than they were told (docs/design/numeric-guards.md). Plain data; declared in guard_options.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

enum class OnSpike { kOff, kTell, kSkip, kRollBack };
std::vector<std::string_view> names_of(OnSpike);

struct GuardOptions {
  OnSpike on_spike = OnSpike::kTell;
  int64_t spike_back = 200;  // steps: how far a rollback goes back at least, and how many steps' data are then passed over
  int64_t rollbacks = 3;     // after which the run ends with exit code 67
  double rate_factor = 1;    // of the learning rate, at each rollback

  // Steps between checks for silent corruption; 0: none.
  int64_t replicas_every = 100;  // bytes of what several ranks hold copies of
  int64_t states_every = 100;    // optimizer states that cannot be
  int64_t products_every = 0;    // a matrix product, by sums
  int64_t replay_every = 0;      // a micro-batch on another replica, bit by bit
  bool operator==(const GuardOptions&) const = default;
};

void declare(OptionSet& set, GuardOptions& guard);

}  // namespace longhaul::recipe
