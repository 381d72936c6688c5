// What of a recipe changes its batch on the way, and cannot: stages (optim.stages), growth by what is measured (optim.batch_growth).
#pragma once

#include "recipe/check.h"

namespace longhaul::recipe {

void check_batches(const Recipe& recipe, std::vector<Problem>& out);

}  // namespace longhaul::recipe
