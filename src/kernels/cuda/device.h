// The language of our CUDA sources, for .cu files only. Compiled by nvcc it is CUDA. Compiled by a host
// compiler it is defined by a header <cuda_emulation.h> on the include path: that of the tests
// (tests/support/cuda_emulation), where each CUDA thread is a fibre, warp-wide instructions use the
// fragment layouts of fragments.h, and shared memory is poisoned. So every kernel runs, and is checked,
// without a GPU. Such a run says nothing about speed.
//
// Errors of a launch are std::runtime_error with the name of the kernel. Kernels take raw pointers, sizes
// and a stream; nothing here waits.
#pragma once

#include <stdexcept>
#include <string>

#include "kernels/cuda/numbers.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define LONGHAUL_KERNEL(threads) static __global__ void __launch_bounds__(threads)
#define LONGHAUL_KERNEL_OF_TWO(threads) \
  static __global__ void __launch_bounds__(threads, 2)  // registers for two blocks at once
#define LONGHAUL_DEVICE __device__ __forceinline__
#define LONGHAUL_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#define LONGHAUL_UNROLL _Pragma("unroll")
#define LONGHAUL_PRAGMA(text) _Pragma(#text)
#define LONGHAUL_UNROLL_BY(count) LONGHAUL_PRAGMA(unroll count)  // so that many loads are under way together
#define LONGHAUL_ROLL _Pragma("unroll 1")                        // where unrolling would only cost registers
#else
#include <cuda_emulation.h>
#define LONGHAUL_KERNEL(threads) static void
#define LONGHAUL_KERNEL_OF_TWO(threads) static void
#define LONGHAUL_DEVICE inline
#define LONGHAUL_SHARED(name) \
  unsigned char* const name = ::longhaul::kernels::cuda::emulation::shared_memory()
#define LONGHAUL_UNROLL
#define LONGHAUL_UNROLL_BY(count)
#define LONGHAUL_ROLL
#endif

namespace longhaul::kernels::cuda {

// Starts kernel<<<blocks, threads, shared, stream>>>(arguments…); no blocks: nothing.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), int64_t blocks, int threads, int shared_bytes,
            Stream stream, Arguments... arguments) {
  if (blocks == 0) return;
  if (blocks > 0x7fffffff)
    throw std::runtime_error(std::string(name) + ": " + std::to_string(blocks) +
                             " blocks are more than a launch takes");
  if (shared_bytes > kLargestSharedBytes) {
    throw std::runtime_error(std::string(name) + ": " + std::to_string(shared_bytes) +
                             " bytes of shared memory wanted, " + std::to_string(kLargestSharedBytes) +
                             " is the most");
  }
#if defined(__CUDACC__)
  cudaError_t status = cudaSuccess;
  if (shared_bytes > 48 * 1024)
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (status == cudaSuccess) {
    kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), static_cast<size_t>(shared_bytes),
             static_cast<cudaStream_t>(stream)>>>(arguments...);
    status = cudaGetLastError();
  }
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(name) + " could not be started: " + cudaGetErrorString(status));
#else
  static_cast<void>(stream);
  emulation::run(name, blocks, threads, shared_bytes, [=] { kernel(static_cast<Parameters>(arguments)...); });
#endif
}

}  // namespace longhaul::kernels::cuda
