// A router's choice balanced by Sinkhorn's iteration (kernels/experts/sinkhorn.h), over the tokens of each sequence by itself: as the balance loss and the
// capacity are asked of a sequence, so that neither micro-batches nor ranks change a choice. (Megatron-LM balances whatever tokens a rank happens to
// hold, which every layout changes: docs/sources/moe-parallel-folding.md §4.2.) Where ranks cut a sequence each of them gets the row's logits and does all of
// it: the same bits in every layout for the same logits.
#pragma once

#include "layout/sequence_view.h"
#include "model/parallel_ops.h"

namespace longhaul::model {

// logits [own tokens, experts] → what the choice goes by, fp64. A collective call of the ranks that share the row, if they cut a sequence.
Tensor balanced_by_sinkhorn(const Tensor& logits_te, const layout::SequenceView& view, ParallelOps& ops);

}  // namespace longhaul::model
