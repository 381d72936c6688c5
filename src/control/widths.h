// The numbers of ranks with which a run can continue when nodes are gone: fewer whole replicas of the model,
// with the same batch and the same tensor, pipeline, context and expert sizes as before. All replicas take
// the same number of micro-batches, which is larger than before; if the batch does not divide evenly, the
// micro-batches are made smaller. A width with which the batch cannot be divided so is left out, and the next
// narrower one is used. An outer loop loses whole islands, and keeps at least two; if no whole island can be
// removed, its islands get smaller.
#pragma once

#include <vector>

#include "control/policy.h"
#include "recipe/recipe.h"

namespace longhaul::control {

// Widest first: `ranks` itself (even if it is impossible, since the ranks report what is wrong), then fewer.
std::vector<Width> widths_of(const recipe::Recipe& recipe, int64_t ranks);

// The number of samples of each step, from the recipe's batch and the stages of its optimizer.
std::vector<BatchSize> batches_of(const recipe::Recipe& recipe);

// How many times as long as the steps before it a step may take where a stage of optim.stages begins: by its
// tokens, and once more by how much longer its sequences are, as full attention has it. At least 1.
double longest_growth(const recipe::Recipe& recipe);

}  // namespace longhaul::control
