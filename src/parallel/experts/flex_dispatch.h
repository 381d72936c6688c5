// The dispatcher that sends a token once to a rank, however many of its experts lie there (docs/sources/moe-parallel-folding.md §3.4, as DeepEP's kernels do):
// ep and etp are one group of ranks. What a rank gets are tokens with their choices and weights; it makes the rows of its experts itself,
// weights what they make of them, adds it up token by token and sends one row back, which the token's own rank adds up over the ranks. Where
// ranks share the tensors of an expert each of them gets the token, and their rows are partial sums like any others.
//
// In bf16 a sum is rounded once a rank where all-to-all rounds each expert's row.
#pragma once

#include <vector>

#include "model/parallel_ops.h"
#include "parallel/experts/expert_owners.h"
#include "recipe/sections/parallel_options.h"

namespace longhaul::parallel {

// Of groups of tokens: one is computed while the next is under way. A collective call of all ranks of ep-etp.
std::vector<Tensor> flex(const Owners& owners, const recipe::ExpertOptions& options, const std::vector<Tensor>& hidden,
                         const std::vector<model::ExpertChoices>& groups, const model::ExpertProduct& product);

}  // namespace longhaul::parallel
