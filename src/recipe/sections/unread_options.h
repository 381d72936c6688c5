// unread_options: what somebody has set and nothing of the recipe reads: numbers of other optimizers, schedules and outer loops than those it has. A value
// from a preset or from a file that the recipe builds on, or that is the default, is nobody's mistake. Pure.
#pragma once

#include <string>
#include <vector>

#include "recipe/load.h"

namespace longhaul::recipe {

// Phrases, in the order of the options: "optim.momentum (read by adafactor, sm3, muon, sgd)".
std::vector<std::string> unread_options(const LoadedRecipe& loaded);

}  // namespace longhaul::recipe
