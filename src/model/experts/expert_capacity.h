// Which of a router's choices an expert has room for (docs/sources/moe-parallel-folding.md §4.3). The
// contribution of a dropped choice is missing, and the other weights stay unchanged
// (docs/sources/minimax-01.md §2.5). Where an expert has more choices than room, those with the smallest
// weights are dropped, or the last ones. The room C, with T tokens, k choices and E experts
// (model.capacity_…), is one of these:
//
//   of a sequence   C = ⌈factor · k · T / E⌉, decided together by all ranks that share the sequence:
//                   full-sequence dropping.
//   of its parts    The same with T the tokens of a part of a sequence: sub-sequence dropping. Where no part
//                   is cut by ranks, each rank decides by itself.
//   of the batch    C for all sequences of the step. Where their choices n_s are more, sequence s keeps ⌊C
//                   n_s / Σ n⌋ of them, and the first sequences with more choices keep one more each, until C
//                   are kept. This is the global router of docs/sources/minimax-01.md §2.5, for which ranks
//                   exchange counts only.
//   lent            Each sequence has a room C, and what it does not fill is dealt out, as above, among the
//                   sequences with more than C choices. This is §2.5's other router, which sends overflow to
//                   free room. It keeps as many choices as `batch`, min(Σ n, Σ C), and no sequence loses what
//                   it had room for.
//
// In all of them, neither micro-batches nor ranks change what is dropped; for `batch` this holds because all
// sequences of a step pass a layer together (language/decoder_plan.cpp).
#pragma once

#include <span>
#include <vector>

#include "layout/sequence_view.h"
#include "model/parallel_ops.h"
#include "recipe/channels/experts.h"

namespace longhaul::model {

struct KeptChoices {
  Tensor choice_tk;  // for this rank's own tokens; −1 where dropped
  // scalar: of the choices of the tokens that were judged here, those of the row or this rank's
  Tensor dropped_share;
  // The most that any rank that shares the row can have: rows for one expert, and tokens. It follows from the
  // layout alone.
  int64_t most_rows = 0, most_tokens = 0;
};

// choice_tk int64 and weight_tk: for this rank's own tokens. A collective call of the ranks that share the
// row, and of all replicas where the batch shares the room.
KeptChoices within_capacity(const Tensor& choice_tk, const Tensor& weight_tk, int64_t experts,
                            const recipe::RouterOptions& options, const layout::SequenceView& view,
                            ParallelOps& ops);

// How many of its `wanted` choices of one expert each sequence keeps, with `room` for all sequences together.
std::vector<int64_t> quotas(std::span<const int64_t> wanted, int64_t room);
// The same where each sequence has its own `room` and lends what it does not use.
std::vector<int64_t> lent_quotas(std::span<const int64_t> wanted, int64_t room);

}  // namespace longhaul::model
