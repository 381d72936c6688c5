// How tokens reach experts on other ranks (docs/sources/moe-parallel-folding.md §3). Experts are dealt out
// over ep, and the inner channels of each over etp. The ranks of both together (ep-etp) all have tokens of
// their own, whatever their dense axes are.
//
//   all-to-all   The row of a token goes to the rank of each of its experts over ep. Rows are gathered over
//                etp, and the partial results are reduced and cut over etp. The results return over ep and
//                are weighted by the token's own rank.
//   all-gather   All tokens go to all ranks of ep-etp with their choices and weights. Each rank weights the
//                results of its experts, and the sums are reduced and cut.
//   flex         The row of a token goes once to each rank of ep-etp that holds any of its experts, with
//                choices and weights. Each rank weights and adds the results of its experts, and one row
//                returns from each (flex_dispatch.h).
//
// For each layer and forward pass, with T tokens of H elements, k choices and equally many rows on every
// rank, a rank sends: all-to-all T·k·H·(ep−1)/ep in each of two exchanges and T·k·H·(etp−1) for each of
// gathering and reducing; all-gather T·H·(ep·etp−1) for each of both; flex T·H·(number of other ranks that
// hold a token's experts) in each of two exchanges. The backward pass sends the same in reverse.
//
// With padding (all-to-all, experts with a capacity), every rank sends to every expert as many rows as any
// rank can have for one, filled up with zeros (drop-and-pad). Shapes then follow from the layout, and no
// counts are exchanged beforehand.
//
// Tokens may go in groups, so that one group is exchanged while another is computed, forward and backward.
// The weight gradients of experts may be computed while the gradients of their rows are sent back. Both
// change results only by the order of sums.
//
// Where passes run in pairs (parallel/pipeline/pipeline.h), the other pass runs while this one waits for
// rows: over ep, or over etp where only that axis is used. The small exchanges before the rows (counts,
// choices, weights) are waited for at once, so a layer has two turns in the forward and in the backward pass.
#pragma once

#include "base/threads/turns.h"
#include "model/parallel_ops.h"
#include "parallel/mesh_groups.h"
#include "recipe/sections/parallel_options.h"

namespace longhaul::parallel {

// A collective call of all ranks of ep-etp; any of them may have no tokens. turns: the turns of paired
// passes; null: passes are not paired.
Tensor dispatch_to_experts(const MeshGroups& groups, const recipe::ExpertOptions& options,
                           const Tensor& hidden_td, const model::ExpertChoices& choices,
                           const model::ExpertProduct& product, Turns* turns = nullptr);

}  // namespace longhaul::parallel
