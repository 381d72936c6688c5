// Which of a router's choices an expert has room for (docs/sources/moe-parallel-folding.md §4.3). What a dropped choice would have given is missing: the other
// weights stay as they are (docs/sources/minimax-01.md §2.5). Of more choices than an expert has room for, those with the smallest weights are dropped, or the last ones.
// Rooms, with T tokens, k choices and E experts (model.capacity_…):
//
//   of a sequence   C = ⌈factor · k · T / E⌉, decided by all ranks that share the sequence together: full-sequence dropping
//   of its parts    the same with T the tokens of a part, of which a sequence has several: sub-sequence dropping. Where no part is cut by ranks, each decides
//                   by itself
//   of the batch    C of all sequences of the step. When their choices n_s are more, sequence s may keep ⌊C n_s / Σ n⌋ of them and the first sequences with more
//                   one further each, until C are kept: the global router of docs/sources/minimax-01.md §2.5, of which ranks learn numbers alone
//   lent            each sequence has C of its own, and what it does not fill is dealt out, as above, among those with more than C: §2.5's other router, which
//                   sends what overflows to where there is room. As many are kept as of the batch, min(Σ n, Σ C); no sequence loses what it had room for
//
// In all of them neither micro-batches nor ranks change what is dropped; of the batch because a step's sequences pass a layer together (run/run.cpp).
#pragma once

#include <span>
#include <vector>

#include "layout/sequence_view.h"
#include "model/parallel_ops.h"
#include "recipe/mixers/experts.h"

namespace longhaul::model {

struct KeptChoices {
  Tensor choice_tk;      // of this rank's own tokens, −1 where dropped
  Tensor dropped_share;  // scalar: of the choices of the tokens that were judged here, those of the row or this rank's
  // What any rank that shares the row can have at most: of rows for one expert, of tokens. Known from the layout alone.
  int64_t most_rows = 0, most_tokens = 0;
};

// choice_tk int64, weight_tk: of this rank's own tokens. A collective call of the ranks that share the row, of all replicas where the batch shares.
KeptChoices within_capacity(const Tensor& choice_tk, const Tensor& weight_tk, int64_t experts, const recipe::RouterOptions& options,
                            const layout::SequenceView& view, ParallelOps& ops);

// How many of `wanted` each sequence keeps of one expert with this much room for all of them.
std::vector<int64_t> quotas(std::span<const int64_t> wanted, int64_t room);
// The same where each has `room` of its own and lends the rest.
std::vector<int64_t> lent_quotas(std::span<const int64_t> wanted, int64_t room);

}  // namespace longhaul::model
