// What the recipe tests share: the fields of the Error that an action throws.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"

inline longhaul::ErrorFields error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const longhaul::Error& error) {
    return error.fields();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}
