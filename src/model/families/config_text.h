// config.json as Python writes it: its json module writes Infinity, -Infinity and NaN, which JSON does not
// have. Pure function.
#pragma once

#include <string>
#include <string_view>

namespace longhaul::model {

// the same with null in their places; texts are left as they are
std::string json_of_python(std::string_view text);

}  // namespace longhaul::model
