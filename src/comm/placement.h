// Placement, under the names that communicators use: which rank this process is (control/wire/placement.h,
// which knows the engines).
#pragma once

#include "control/wire/placement.h"

namespace longhaul::comm {

using control::environment_of_rank;
using control::find_place;
using control::kLaunched;
using control::Placement;
using control::variable;

}  // namespace longhaul::comm
