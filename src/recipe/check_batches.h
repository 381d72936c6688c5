// Checks the options that change the batch during a run: stages (optim.stages) and growth by measurement
// (optim.batch_growth).
#pragma once

#include "recipe/check.h"

namespace longhaul::recipe {

void check_batches(const Recipe& recipe, std::vector<Problem>& out);

}  // namespace longhaul::recipe
