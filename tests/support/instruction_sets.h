// Runs the same check under every instruction set that this processor has.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "kernels/gemm/block.h"

namespace longhaul::testing {

inline void for_each_instruction_set(const std::function<void()>& body) {
  for (const kernels::BlockKernels* set : kernels::usable_block_kernels()) {
    SCOPED_TRACE(set->name);
    kernels::force_block_kernels(set->name);
    body();
    kernels::force_block_kernels(std::nullopt);
  }
}

}  // namespace longhaul::testing
