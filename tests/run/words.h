// Words of a recipe ("train.steps=3"), and more of them.
#pragma once

#include <string>
#include <vector>

namespace longhaul::run {

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace longhaul::run
