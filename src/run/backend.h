// require_backend: checks that the ranks were started as parallel.backend asks: as threads of the one
// process, or as processes of an engine. Nothing is replaced silently: a recipe that asks for processes but
// was started as one process, or for a backend that this program was built without, gets an error that says
// what to type (kUsage). A recipe without a wish takes what was started.
#pragma once

#include "comm/placement.h"
#include "recipe/load.h"

namespace longhaul::run {

void require_backend(const recipe::LoadedRecipe& recipe, const comm::Placement& place);

}  // namespace longhaul::run
