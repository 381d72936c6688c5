// Jitter of a router's input in training: every channel is multiplied by a random number from [1 − jitter, 1 + jitter) (Switch Transformers, arXiv 2101.03961 §2.2;
// docs/sources/moe-parallel-folding.md §4: x · U(1 − ε, 1 + ε)). The number of a channel follows from seed, step, router, the sequence's number in the step and the
// token's in the sequence, and nothing else: a layer that is run again, a run that goes on, and every layout of ranks and micro-batches have the same ones.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "layout/sequence_view.h"
#include "tensor/tensor.h"

namespace longhaul::model {

// Of each own token the first of the `blocks` blocks of a stream (base/random.h) that are its own, by its sequence in the step and its place in that.
std::vector<uint64_t> first_blocks_of_tokens(const layout::SequenceView& view, int64_t blocks, int64_t first_sequence);

// hidden [own tokens, hidden] → in the precision of sums. first_sequence: number in the step of the first sequence of the view's row. Differentiable;
// backward draws the numbers again instead of keeping them.
Tensor jittered(const Tensor& hidden_td, double jitter, const RandomStream& stream, const layout::SequenceView& view,
                int64_t first_sequence);

}  // namespace longhaul::model
