#pragma once

#include <gtest/gtest.h>

#include "kernels/cuda/calls.h"
#include "kernels/cuda/runtime.h"
#include "library_calls.h"
#include "support/tensors.h"

namespace longhaul::testing {

// While alive, CPU tensors count as lying on a GPU, our CUDA kernels are emulated, LibTorch's operators for a
// GPU have stand-ins, and what LibTorch allocates is NaN.
class OnEmulatedGpu {
 public:
  OnEmulatedGpu() {
    EXPECT_TRUE(kernels::cuda::runtime::machine().emulated);
    stand_in_for_library_calls();
    kernels::emulate_cuda(true);
  }
  ~OnEmulatedGpu() { kernels::emulate_cuda(false); }
  OnEmulatedGpu(const OnEmulatedGpu&) = delete;
  OnEmulatedGpu& operator=(const OnEmulatedGpu&) = delete;

 private:
  PoisonFreshMemory poison_;
};

}  // namespace longhaul::testing
