// The kind of a group of ranks, by its path: "tp" for "world/tp 3". A mesh has as many groups of a kind as
// there are ranks beside its axis, and pages, tables and metrics tell kinds.
#pragma once

#include <string>

namespace longhaul::observe {

inline std::string group_kind(const std::string& path) {
  const std::string last = path.substr(path.rfind('/') + 1);
  return last.substr(0, last.rfind(' '));
}

}  // namespace longhaul::observe
