// Which of a router's choices an expert has room for (moe-parallel-folding.md §4.3). An expert takes at most C = ⌈factor · k · T / E⌉ choices of
// a sequence of T tokens; of more, those with the smallest weights are dropped, or the last ones. Decided for each sequence by itself, by all
// ranks that share it together, so that neither micro-batches nor ranks change what is dropped. What a dropped choice would have given is
// missing: the other weights stay as they are (minimax-01.md §2.5).
#pragma once

#include "layout/sequence_view.h"
#include "model/parallel_ops.h"
#include "recipe/mixers/experts.h"

namespace longhaul::model {

struct KeptChoices {
  Tensor choice_tk;      // of this rank's own tokens, −1 where dropped
  Tensor dropped_share;  // scalar: of the choices of all tokens of the row
};

// choice_tk int64, weight_tk: of this rank's own tokens.
KeptChoices within_capacity(const Tensor& choice_tk, const Tensor& weight_tk, int64_t experts, const recipe::RouterOptions& options,
                            const layout::SequenceView& view, ParallelOps& ops);

}  // namespace longhaul::model
