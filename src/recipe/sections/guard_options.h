// GuardOptions: [guard] of a recipe: how a run reacts to wrong numbers: loss spikes, and processors and
// memory that silently compute or store wrong values (docs/design/numeric-guards.md). Plain data; declared in
// guard_options.cpp.
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
  // In steps: how far a rollback goes back at least, and how many steps' data are then skipped.
  int64_t spike_back = 200;
  int64_t rollbacks = 3;   // after so many rollbacks the run ends with exit code 67
  double rate_factor = 1;  // factor of the learning rate at each rollback

  // Steps between checks for silent corruption; 0: none.
  int64_t replicas_every = 100;  // compares the bytes of which several ranks hold copies
  int64_t states_every = 100;    // checks optimizer states for impossible values
  int64_t products_every = 0;    // checks a matrix product by sums
  int64_t replay_every = 0;      // computes a micro-batch again on another replica, bit by bit
  bool operator==(const GuardOptions&) const = default;
};

void declare(OptionSet& set, GuardOptions& guard);

}  // namespace longhaul::recipe
