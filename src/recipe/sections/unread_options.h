// unread_options finds options that somebody has set and that nothing in the recipe reads: numbers of other
// optimizers, schedules and outer loops than those in use. A default, or a value from a preset or from a base
// file, is not reported, because nobody typed it. Pure.
#pragma once

#include <string>
#include <vector>

#include "recipe/load.h"

namespace longhaul::recipe {

// Returns phrases in the order of the options: "optim.momentum (read by adafactor, sm3, muon, sgd)".
std::vector<std::string> unread_options(const LoadedRecipe& loaded);

}  // namespace longhaul::recipe
