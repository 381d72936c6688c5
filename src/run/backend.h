// require_backend: what parallel.backend asks for is what there is: threads of the one process that was started, or the processes that an
// engine started. Nothing is replaced by anything else: who asks for processes and starts one, or for what this program was built without,
// is told what to type (kUsage). A recipe that says nothing takes what it was started as.
#pragma once

#include "comm/placement.h"
#include "recipe/load.h"

namespace longhaul::run {

void require_backend(const recipe::LoadedRecipe& recipe, const comm::Placement& place);

}  // namespace longhaul::run
