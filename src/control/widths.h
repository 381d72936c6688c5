// The numbers of ranks that a run can go on with when nodes are gone: whole replicas of the model fewer, the same batch, tensor, pipeline, context and
// expert sizes as before. Each replica takes as many micro-batches as every other, more of them than before; where these do not come out even
// they are made smaller. A width at which the batch cannot be dealt out so is left out: the next narrower is taken. Workers of an outer loop go whole, and
// two at least stay; where no whole island is left over, their islands shrink.
#pragma once

#include <vector>

#include "control/policy.h"
#include "recipe/recipe.h"

namespace longhaul::control {

// Widest first: `ranks` itself (whether it is possible or not: the ranks say what is wrong), then fewer.
std::vector<Width> widths_of(const recipe::Recipe& recipe, int64_t ranks);

// The samples of steps, as the recipe's batch and the stages of its optimizer have them.
std::vector<BatchSize> batches_of(const recipe::Recipe& recipe);

}  // namespace longhaul::control
