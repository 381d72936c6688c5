// Which of several calls that wait for the same link goes first (comm::CallOptions): that whose result is needed first (docs/sources/megascale.md §3.1). What
// computing waits for at once (tensor, context and expert ranks, a pipeline's hidden states) has 0, as every call that says nothing; an outer
// loop's sums, which have many steps, go behind all of these (optim/outer/outer_weights.cpp).
#pragma once

namespace longhaul::parallel {

inline constexpr int kValuesOfLayersToCome = -1;  // before the pass that they are gathered ahead of
inline constexpr int kSumsOfGradients = -2;       // before the layer behind has been gone through, or the step ends
inline constexpr int kSumsBetweenCopies = -3;     // a layer later still

}  // namespace longhaul::parallel
