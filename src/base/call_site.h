// CallSite: the file and line of the caller of a function, as the default value of one of its parameters. It
// stands for std::source_location, which Debian 12's clang does not have, and that compiler builds the fuzz
// targets.
//
//   void enter(Phase phase, CallSite at = CallSite::here());
#pragma once

namespace longhaul {

struct CallSite {
  const char* file = "";
  unsigned line = 0;
  static constexpr CallSite here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace longhaul
