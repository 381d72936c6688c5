// Placement as communicators use it: which rank this process is (control/wire/placement.h, where engines are known).
#pragma once

#include "control/wire/placement.h"

namespace longhaul::comm {

using control::environment_of_rank;
using control::find_place;
using control::kLaunched;
using control::Placement;
using control::variable;

}  // namespace longhaul::comm
