// The dispatcher that sends a token once to each rank, however many of its experts lie there
// (docs/sources/moe-parallel-folding.md §3.4, like DeepEP's kernels): ep and etp form one group of ranks. A
// rank receives tokens with their choices and weights, makes the rows of its experts itself, weights and adds
// the results token by token, and sends one row back, which the token's own rank adds up over the ranks.
// Where ranks share the tensors of an expert each of them receives the token, and their rows are partial sums
// like any others.
//
// In bf16 a sum is rounded once for each rank, where all-to-all rounds the row of each expert.
#pragma once

#include <vector>

#include "model/parallel_ops.h"
#include "parallel/experts/expert_owners.h"
#include "recipe/sections/parallel_options.h"

namespace longhaul::parallel {

// Handles groups of tokens: one is computed while the next is exchanged. A collective call of all ranks of
// ep-etp.
std::vector<Tensor> flex(const Owners& owners, const recipe::ExpertOptions& options,
                         const std::vector<Tensor>& hidden, const std::vector<model::ExpertChoices>& groups,
                         const model::ExpertProduct& product);

}  // namespace longhaul::parallel
