// The CUDA kernels, emulated on the CPU (support/cuda_emulation), under the checks that gpu-check runs on a
// GPU: references in fp64, NaN in every output and in shared memory, guard bands. Each group runs in two
// orders of threads. ctest: label=fast timeout=240
#include <cuda_emulation.h>
#include <gtest/gtest.h>

#include "gpu_check/session.h"
#include "kernels/cuda/mma.h"

namespace longhaul::gpu_check::cuda_emulated_test {
namespace {

namespace emulation = kernels::cuda::emulation;

void run_checks(void (*check)(Session&)) {
  std::vector<double> errors;
  for (const emulation::Order order : {emulation::Order::kDescending, emulation::Order::kShuffled}) {
    emulation::set_order(order);
    Session session(kernels::cuda::runtime::machine());
    ASSERT_TRUE(session.machine.emulated);
    check(session);
    emulation::set_order(emulation::Order::kAscending);
    ASSERT_FALSE(session.checks.empty());
    EXPECT_TRUE(session.passed()) << session.table();
    // The order of threads must not show in a single bit, so neither in an error.
    std::vector<double> now;
    for (const CheckResult& result : session.checks) now.push_back(result.rms);
    if (!errors.empty()) {
      EXPECT_EQ(now, errors);
    }
    errors = now;
  }
}

TEST(CudaEmulatedRecurrence, AgreesWithTheReference) { run_checks(check_linear_recurrence); }
TEST(CudaEmulatedDeltaRule, AgreesWithTheReference) { run_checks(check_delta_rule); }
TEST(CudaEmulatedAttention, AgreesWithTheReference) { run_checks(check_attention); }
TEST(CudaEmulatedNorms, AgreeWithTheReference) { run_checks(check_norms); }
TEST(CudaEmulatedFused, AgreesWithTheReference) { run_checks(check_fused); }
TEST(CudaEmulatedFeatureMaps, AgreeWithTheReference) { run_checks(check_feature_maps); }
TEST(CudaEmulatedConvolution, AgreesWithTheReference) { run_checks(check_short_convolution); }
TEST(CudaEmulatedProducts, AgreeWithTheReference) { run_checks(check_products); }
TEST(CudaEmulatedLosses, AgreeWithTheReference) { run_checks(check_losses); }
TEST(CudaEmulatedExperts, AgreeWithTheReference) { run_checks(check_experts); }
TEST(CudaEmulatedAdamw, AgreesWithTheReference) { run_checks(check_adamw); }

// What the emulation itself must notice.
using kernels::cuda::Bf16;

void diverge(int) {
  if (threadIdx.x < 16) {
    kernels::cuda::shuffle_xor(1.f, 1);
  } else {
    kernels::cuda::ballot(true);
  }
}
void leave_before_barrier(int) {
  if (threadIdx.x != 5) __syncthreads();
}
void write_outside(int) {
  LONGHAUL_SHARED(shared);
  if (threadIdx.x == 0) shared[64] = 1;
}
void forget_copies(const Bf16* from) {
  LONGHAUL_SHARED(shared);
  kernels::cuda::copy_async(shared, from, 16);
}
void read_before_waiting(const Bf16* from, float* out) {
  LONGHAUL_SHARED(shared);
  if (threadIdx.x == 0) kernels::cuda::copy_async(shared, from, 16);
  kernels::cuda::end_copy_group();
  const float early = kernels::cuda::to_float(*reinterpret_cast<const Bf16*>(shared));
  kernels::cuda::wait_for_copies<0>();
  __syncthreads();
  if (threadIdx.x == 0) out[0] = early;
  if (threadIdx.x == 0) out[1] = kernels::cuda::to_float(*reinterpret_cast<const Bf16*>(shared));
}

TEST(CudaEmulation, NoticesWhatAGpuWouldNotForgive) {
  using kernels::cuda::launch;
  EXPECT_ANY_THROW(launch("diverge", diverge, 1, 32, 0, nullptr, 0));
  EXPECT_ANY_THROW(launch("leave", leave_before_barrier, 1, 64, 0, nullptr, 0));
  EXPECT_ANY_THROW(launch("outside", write_outside, 1, 32, 64, nullptr, 0));
  EXPECT_ANY_THROW(launch("large", write_outside, 1, 32, kernels::cuda::kLargestSharedBytes + 1, nullptr, 0));
  alignas(16) Bf16 source[8] = {kernels::cuda::to_bf16(3)};
  EXPECT_ANY_THROW(launch("forget", forget_copies, 1, 32, 16, nullptr, source));
  float seen[2] = {0, 0};
  launch("early", read_before_waiting, 1, 32, 16, nullptr, source, seen);
  EXPECT_TRUE(std::isnan(seen[0]));
  EXPECT_EQ(seen[1], 3);
}

}  // namespace
}  // namespace longhaul::gpu_check::cuda_emulated_test
