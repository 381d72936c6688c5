// The suite runs only a part of some lists of cases, so that it ends in minutes; the nightly tests run all
// of them (nightly.whole_… in tests/CMakeLists.txt).
#pragma once

#include <cstdlib>

namespace longhaul::testing {

inline bool takes_all() { return std::getenv("LONGHAUL_TEST_ALL") != nullptr; }

}  // namespace longhaul::testing
