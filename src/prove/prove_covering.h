// All layouts that `prove` can try: every mesh of 1, 2, 4 … ranks, each once; what else can be chosen (context method, schedule, packing, …) is
// dealt out to them so that any two choices of two keys meet in some layout, if they can: a pairwise covering array, made greedily; and
// process_layouts. A mesh that the model cannot be dealt out to stands in the list, and will be refused with the reason: nothing is left out
// silently.
#pragma once

#include <string>
#include <vector>

#include "prove/prove_layouts.h"

namespace longhaul::prove {

// Of worlds of 1, 2, 4, … up to `ranks`, of the model made small for each.
std::vector<ProofLayout> all_layouts(const recipe::ModelConfig& model, int64_t ranks);

// What of the pairs of choices no layout has; the reason is that none can. Names "parallel.schedule=dualpipe with packed=false".
std::vector<std::string> pairs_left_out(const std::vector<ProofLayout>& layouts);

}  // namespace longhaul::prove
