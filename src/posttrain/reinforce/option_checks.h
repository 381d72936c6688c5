// What [reinforce] cannot be, with the option that would be (kUsage).
#pragma once

#include <string>

#include "posttrain/reinforce/options.h"

namespace longhaul::posttrain {

[[noreturn]] void refuse_option(const std::string& what, const std::string& expected,
                                const std::string& found, const std::string& where, const std::string& hint);

// Options that do not go together, or not with the model and [train] of the recipe.
void check_options(const ReinforceOptions& options, const recipe::Recipe& recipe);

}  // namespace longhaul::posttrain
