// Choices whatever the scores are, for benchmarks (the force-balanced logits and the shared biased logits of
// docs/sources/moe-parallel-folding.md §4.2): what RouterOptions::judged is to give for logits [own tokens,
// experts], fp64. The same in every layout of ranks and micro-batches, and when a layer is run again.
#pragma once

#include "base/random.h"
#include "layout/sequence_view.h"
#include "tensor/tensor.h"

namespace longhaul::model {

// Random numbers, one for each sequence, token and expert: every expert is as likely as every other.
// first_sequence: number in the step of the view's first.
Tensor judged_at_random(const Tensor& logits_te, const RandomStream& stream, const layout::SequenceView& view,
                        int64_t first_sequence);
// The t-th token of a sequence gets experts t k, …, t k + k − 1, counted round: numbers of choices differ by
// one at most.
Tensor judged_in_turn(const Tensor& logits_te, int64_t per_token, const layout::SequenceView& view);
// Uneven loads: normal numbers, one for each sequence, token and expert, and to each expert's its bias, a
// normal number of standard deviation `std` that all tokens share. So Megatron-LM's --moe-router-force-biased
// -std has it (biases drawn once a layer), but that there the numbers take the place of the logits in weights
// too, and are each rank's own.
Tensor judged_with_biases(const Tensor& logits_te, const RandomStream& stream, const RandomStream& biases,
                          double std, const layout::SequenceView& view, int64_t first_sequence);

}  // namespace longhaul::model
