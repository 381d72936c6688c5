// refused: the text of the Error that a call throws, or "accepted".
#pragma once

#include <string>

#include "base/error.h"

namespace longhaul::testing {

template <class Call>
std::string refused(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace longhaul::testing
