// Priorities of communication (comm::CallOptions): of several calls that wait for one link, the one whose
// result is needed first goes first (docs/sources/megascale.md §3.1). Calls that block computation (tensor,
// context and expert ranks, hidden states of a pipeline) have priority 0, as has every call without a
// priority. The sums of an outer loop, which have many steps of time, come last
// (optim/outer/outer_weights.cpp).
#pragma once

namespace longhaul::parallel {

inline constexpr int kValuesOfLayersToCome = -1;  // needed before the pass that they are gathered for
// needed before the next layer's pass ends, or before the step ends
inline constexpr int kSumsOfGradients = -2;
inline constexpr int kSumsBetweenCopies = -3;  // needed one layer later

}  // namespace longhaul::parallel
