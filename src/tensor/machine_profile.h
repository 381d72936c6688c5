// MachineProfile: the rates that this machine really reaches, measured: matrix products for each dtype, and
// memory, on the threads in use. MFU is a share of these numbers, benchmarks print them for comparison,
// `doctor` shows them. A GPU has a profile of its own.
//
// Measuring takes about two seconds, once: the result is kept in the user's cache under the processor, its
// features, the thread count (or the GPU's name) and the LibTorch version. Other programs can only make a
// machine look slower, so a limit is the best of all measurements. A profile whose threads had to wait for
// other programs in all measurements is marked, and is measured again when it is ten minutes old.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <c10/core/Device.h>

namespace longhaul {

struct MachineProfile {
  std::string machine;       // the measured machine: processor, features, threads or GPU, LibTorch
  double measured_at = 0;    // Unix seconds of the last measurement
  int64_t measurements = 1;  // the number of measurements of which these are the best
  int64_t threads = 0;       // threads in use; for a GPU's profile too, those of the measuring process
  double gemm_fp32 = 0, gemm_bf16 = 0,
         // floating-point operations per second (2·m·n·k a product); on a CPU bf16 is fp32 at least
      gemm_fp64 = 0;
  double memory_bytes_per_second = 0;  // bytes read plus bytes written, see measured_memory
  // other programs took part of the cores each time: the true rates are higher
  bool busy = false;
  bool from_cache = false;

  double gemm(std::string_view dtype) const;  // "fp32", "bf16", "fp64"; kUsage for others
  std::string when() const;                   // "measured 2026-11-21T02:36:05Z, the best of 3"
};

MachineProfile measured_profile(bool fresh = false, at::Device device = at::kCPU);
// A computation has shown that a process's threads reach this rate: the profile that is kept takes it, where
// there is one and its rate is lower.
void raise_profile(std::string_view dtype, double flops_per_second, at::Device device = at::kCPU);

struct GemmRate {
  double flops_per_second = 0;
  double milliseconds = 0;  // time of the fastest run
  int64_t runs = 0;
};
// Measures C[m,n] = A[m,k] B[n,k]ᵀ, as a linear layer computes it; the best of as many runs as fit into
// budget_s, at least one.
GemmRate measured_gemm(int64_t m, int64_t n, int64_t k, std::string_view dtype, double budget_s = 0.4,
                       at::Device device = at::kCPU);
// Bytes read plus written per second, out of cache when large; within the device's memory.
double measured_copy(int64_t bytes, double budget_s = 0.3, at::Device device = at::kCPU);
// The limit of any mix of reading and writing: the best of copying, reading alone, and updating in place.
// Copying alone is no limit: a store to a line that was not read makes the processor read it first, and an
// update in place (an optimizer's) does not have that cost.
double measured_memory(int64_t bytes, double budget_s = 0.3, at::Device device = at::kCPU);

}  // namespace longhaul
