// Jitter of a router's input in training: every channel is multiplied by a random number from [1 − jitter, 1
// + jitter) (Switch Transformers, arXiv 2101.03961 §2.2; docs/sources/moe-parallel-folding.md §4: x · U(1 −
// ε, 1 + ε)). The random number of a channel depends only on seed, step, router, the sequence's number in the
// step and the token's place in the sequence, so it is the same when a layer is recomputed, when a run is
// resumed, and under every layout of ranks and micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "layout/sequence_view.h"
#include "tensor/tensor.h"

namespace longhaul::model {

// For each own token, the first of its `blocks` blocks of a random stream (base/random.h); it depends on the
// number of the sequence in the step and the token's place in it.
std::vector<uint64_t> first_blocks_of_tokens(const layout::SequenceView& view, int64_t blocks,
                                             int64_t first_sequence);

// Returns hidden [own tokens, hidden] with jitter, in the precision of sums. first_sequence: the number in
// the step of the first sequence of the view's row. Differentiable; the backward pass draws the numbers again
// instead of keeping them.
Tensor jittered(const Tensor& hidden_td, double jitter, const RandomStream& stream,
                const layout::SequenceView& view, int64_t first_sequence);

}  // namespace longhaul::model
