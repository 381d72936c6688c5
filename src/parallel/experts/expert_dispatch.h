// How tokens reach experts that other ranks have (docs/sources/moe-parallel-folding.md §3). Experts are dealt out over ep, the inner channels of each over
// etp; the ranks of both together (ep-etp) all have tokens of their own, whatever dense axes these ranks stand on.
//
//   all-to-all   a token's row goes to the rank of each of its experts over ep; rows are gathered over etp, and the partial sums of the
//                results added up and cut over etp; they go back over ep and are weighted at home
//   all-gather   all tokens go to all ranks of ep-etp with their choices and weights; each weights what its experts make of them, and the
//                sums are added up and cut
//   flex         a token's row goes once to each rank of ep-etp that has any of its experts, with choices and weights; each weights and adds
//                up what its experts make of it, and one row comes back from each (flex_dispatch.h)
//
// A rank sends, for each layer and forward pass, with T tokens of H elements, k choices and ranks that have equally many rows:
// all-to-all T·k·H·(ep−1)/ep in each of two exchanges and T·k·H·(etp−1) in each of gathering and adding; all-gather T·H·(ep·etp−1) in each
// of both; flex T·H·(other ranks that a token's experts lie on) in each of two exchanges. Backward: the same again, the other way round.
//
// Padded, all-to-all: of experts with a capacity as many rows as any rank can have for one go from every rank to every expert, the rest of them zero
// (drop-and-pad): shapes follow from the layout, and no numbers are exchanged beforehand.
//
// The tokens may go in groups, so that those of one are under way while another's are computed, forward and backward; and the gradients of
// the experts' weights may be computed while the gradients of their rows go home. Neither changes a number but by the order of sums.
//
// Where passes go on in pairs (parallel/pipeline/pipeline.h) the other pass goes on before rows are waited for: over ep, or over etp where that is all there is.
// The small calls in front of rows (numbers, choices, weights) are waited for at once, so that a layer has two turns, forward and backward alike.
#pragma once

#include "base/threads/turns.h"
#include "model/parallel_ops.h"
#include "parallel/mesh_groups.h"
#include "recipe/sections/parallel_options.h"

namespace longhaul::parallel {

// A collective call of all ranks of ep-etp; any of them may have no tokens. turns: of the pairs that the pass may stand in; null: none.
Tensor dispatch_to_experts(const MeshGroups& groups, const recipe::ExpertOptions& options, const Tensor& hidden_td,
                           const model::ExpertChoices& choices, const model::ExpertProduct& product, Turns* turns = nullptr);

}  // namespace longhaul::parallel
