// A router's choice balanced by Sinkhorn's iteration (kernels/experts/sinkhorn.h) over the tokens of each
// sequence separately. The balance loss and the capacity also work by sequence, so neither micro-batches nor
// ranks change a choice. (Megatron-LM balances whatever tokens a rank holds, which changes with every layout:
// docs/sources/moe-parallel-folding.md §4.2.) Where ranks cut a sequence, each of them gets the logits of the
// whole row and runs the whole iteration, so the same logits give the same bits in every layout.
#pragma once

#include "layout/sequence_view.h"
#include "model/parallel_ops.h"

namespace longhaul::model {

// logits [own tokens, experts] → the scores for the choice, fp64. A collective call of the ranks that share
// the row, if they cut a sequence.
Tensor balanced_by_sinkhorn(const Tensor& logits_te, const layout::SequenceView& view, ParallelOps& ops);

}  // namespace longhaul::model
