// What tests ask of a text.
#pragma once

#include <cstddef>
#include <string_view>

namespace longhaul::testing {

// How often `part` stands in `text`, overlapping ones too.
inline size_t count_of(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace longhaul::testing
