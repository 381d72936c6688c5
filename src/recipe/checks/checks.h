// What check() (recipe/check.h) refuses, by the part of a recipe that it is about. Each function adds what it
// finds.
#pragma once

#include <vector>

#include "recipe/check.h"

namespace longhaul::recipe {

using Problems = std::vector<Problem>;

// [train], with what is learnt from another model, what is predicted, and recall.
void check_training(const Recipe& recipe, Problems& out);
// Who holds what: copies of shares, rows of experts, and what train.elastic cannot add up in one order.
void check_sharing(const Recipe& recipe, Problems& out);
// Optimizers and schedules without what they need, narrow states, outer loops, and rules of width.
void check_optimizers(const Recipe& recipe, Problems& out);
// [data], and documents that are grids.
void check_data(const Recipe& recipe, Problems& out);
// What changes the batch or the length of sequences on the way: optim.stages and optim.batch_growth.
void check_batches(const Recipe& recipe, Problems& out);

}  // namespace longhaul::recipe
