// All layouts that `prove` can try: every mesh of 1, 2, 4, … ranks once. The other choices (context method,
// schedule, packing, …) are dealt out to these meshes so that any two choices of two keys meet in some
// layout, if they can: a pairwise covering array, made greedily. The layouts of process_layouts follow. A
// mesh that the model cannot use stays in the list and is refused with the reason, so nothing is left out
// silently.
#pragma once

#include <string>
#include <vector>

#include "prove/prove_layouts.h"

namespace longhaul::prove {

// Layouts of 1, 2, 4, … up to `ranks` ranks, for the model made small for each.
std::vector<ProofLayout> all_layouts(const recipe::ModelConfig& model, int64_t ranks);

// The pairs of choices that no layout contains, because none can, as "parallel.schedule=dualpipe with
// packed=false".
std::vector<std::string> pairs_left_out(const std::vector<ProofLayout>& layouts);

}  // namespace longhaul::prove
