// Helpers for checking texts in tests.
#pragma once

#include <cstddef>
#include <string_view>

namespace longhaul::testing {

// How often `part` occurs in `text`, overlapping occurrences included.
inline size_t count_of(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace longhaul::testing
