// What `train` and `launch` ask of their option --convert.
#pragma once

#include <string>

namespace longhaul::cli {

// kUsage: rules of a conversion without a model (--from) whose layers could become others.
void require_something_to_convert(const std::string& from, const std::string& rules);

}  // namespace longhaul::cli
