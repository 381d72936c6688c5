// The same check under every instruction set that the Highway loops are compiled for and this processor has.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include <hwy/targets.h>

namespace longhaul::testing {

inline void for_each_instruction_set(const std::function<void()>& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace longhaul::testing
