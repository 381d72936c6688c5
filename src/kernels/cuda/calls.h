// How operators find their CUDA kernels, which a program may or may not contain: CMake links them if
// LibTorch has CUDA and LONGHAUL_CUDA is ON, and links their emulation into the tests. <op>/cuda_call.h
// declares a struct of functions on tensors; <op>/cuda_call.cpp, which converts tensors to the raw pointers
// of <op>/cuda.h, fills in such a struct and registers it while the program starts:
//
//   const CudaCalls<NormCuda> registered({.forward = forward, .backward = backward});
//
// Operators ask refuse_cuda first and then call cuda_calls<NormCuda>(). Thread-safe.
#pragma once

#include "kernels/dispatch.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

template <class Calls>
class CudaCalls {
 public:
  explicit CudaCalls(const Calls& calls) {
    calls_ = calls;
    linked_ = true;
  }
  static bool linked() { return linked_; }
  static const Calls& calls() { return calls_; }

 private:
  static inline Calls calls_{};
  static inline bool linked_ = false;
};
template <class Calls>
const Calls& cuda_calls() {
  return CudaCalls<Calls>::calls();
}

struct CudaMachine {
  Refusal (*refusal)();  // why no kernel can run on this machine; empty: they can
};

// Why CUDA kernels do not take x, or, with `bf16_only`, one of its dtype; empty: they do.
Refusal refuse_cuda(const Tensor& x, bool bf16_only = true);

// Whether x lies on a GPU, whose libraries (cuBLAS, flash attention) LibTorch then calls.
bool on_gpu(const Tensor& x);

// For tests that hold the emulation: until set to false, CPU tensors of this thread count as lying on a GPU.
void emulate_cuda(bool on);

}  // namespace longhaul::kernels
