// Patterns of names, as a shell has them: * stands for any letters, none included, and ? for one letter. All
// other letters stand for themselves.
#pragma once

#include <string_view>

namespace longhaul {

bool matches_glob(std::string_view pattern, std::string_view name);

}  // namespace longhaul
