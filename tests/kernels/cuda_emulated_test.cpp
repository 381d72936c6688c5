// The CUDA kernels, emulated on the CPU (kernels/cuda/emulation.h), under the checks that gpu-check runs on a GPU: references in fp64,
// NaN in every output and in shared memory, guard bands. Each group runs in two orders of threads or three. ctest: label=fast timeout=240
#include <gtest/gtest.h>

#include "gpu_check/session.h"
#include "kernels/cuda/barriers.h"
#include "kernels/cuda/emulation.h"

namespace longhaul::gpu_check {
namespace {

namespace emulation = kernels::cuda::emulation;

using Orders = std::initializer_list<emulation::Order>;

void run_checks(void (*check)(Session&), Orders orders = {emulation::Order::kDescending, emulation::Order::kShuffled}) {
  std::vector<double> errors;
  for (const emulation::Order order : orders) {
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
TEST(CudaEmulatedAttention, AgreesWithTheReference) { run_checks(check_attention); }
TEST(CudaEmulatedProductsByWarpGroups, AgreeWithTheReference) { run_checks(check_wgmma); }
TEST(CudaEmulatedAttentionWgmma, AgreesWithTheReference) { run_checks(check_attention_wgmma); }
// Warp groups of different tasks: either may be ahead.
TEST(CudaEmulatedRecurrenceWgmma, AgreesWithTheReference) {
  run_checks(check_linear_recurrence_wgmma, {emulation::Order::kAscending, emulation::Order::kDescending, emulation::Order::kShuffled});
}
TEST(CudaEmulatedNorms, AgreeWithTheReference) { run_checks(check_norms); }
TEST(CudaEmulatedFused, AgreesWithTheReference) { run_checks(check_fused); }
TEST(CudaEmulatedProducts, AgreeWithTheReference) { run_checks(check_products); }
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

// A product of a warp group, whole or with one of its fences and waits left out.
enum class Without { kNothing, kFence, kProxyFence, kWait, kCommit };
void multiply(Without without, const Bf16* a, const Bf16* b, float* out) {
  using namespace kernels::cuda;
  LONGHAUL_SHARED(shared);
  const Panels<64, 64> left{reinterpret_cast<Bf16*>(aligned_to_pattern(shared))};
  const Panels<128, 64> right{left.data + 64 * 64};
  const auto fill = [](const auto& panels, const Bf16* from, int rows) {
    for (int i = static_cast<int>(threadIdx.x); i < rows * 8; i += kGroup) copy_async(panels.at(i / 8, i % 8 * 8), from + i * 8, 16);
  };
  fill(left, a, 64);
  fill(right, b, 128);
  end_copy_group();
  wait_for_copies<0>();
  if (without != Without::kProxyFence) fence_async_proxy();
  __syncthreads();
  float c[16][4] = {};
  if (without != Without::kFence) wgmma_fence();
  for (int k = 0; k < 64; k += 16) group_multiply<true>(c, left.of_rows(0, k), right.of_rows(0, k));
  if (without != Without::kCommit) wgmma_commit();
  if (without != Without::kWait) wgmma_wait<0>();
  for (int i = 0; i < 64; ++i) {
    const Place at = group_c_place(static_cast<int>(threadIdx.x), i);
    out[at.row * 128 + at.col] = c[i / 4][i % 4];
  }
  if (without == Without::kWait) wgmma_wait<0>();
}

TEST(CudaEmulation, MultipliesByWarpGroupsAndNoticesMissingFencesAndWaits) {
  std::vector<Bf16> a(64 * 64), b(128 * 64);
  for (size_t i = 0; i < a.size(); ++i) a[i] = kernels::cuda::to_bf16(static_cast<float>(i * 7 % 13) - 6);
  for (size_t i = 0; i < b.size(); ++i) b[i] = kernels::cuda::to_bf16(static_cast<float>(i * 5 % 11) - 5);
  std::vector<float> out(64 * 128);
  const auto run = [&](Without without) {
    std::fill(out.begin(), out.end(), 0.f);
    kernels::cuda::launch("product", multiply, 1, 128, 1024 + (64 + 128) * 128, nullptr, without, a.data(), b.data(), out.data());
  };
  for (const emulation::Order order : {emulation::Order::kDescending, emulation::Order::kShuffled}) {
    emulation::set_order(order);
    run(Without::kNothing);
    for (size_t row = 0; row < 64; ++row) {
      for (size_t col = 0; col < 128; ++col) {
        float sum = 0;
        for (size_t k = 0; k < 64; ++k) sum += kernels::cuda::to_float(a[row * 64 + k]) * kernels::cuda::to_float(b[col * 64 + k]);
        ASSERT_EQ(out[row * 128 + col], sum) << row << " " << col;  // whole numbers: exact in any order
      }
    }
    EXPECT_ANY_THROW(run(Without::kFence));
    EXPECT_ANY_THROW(run(Without::kProxyFence));
    EXPECT_ANY_THROW(run(Without::kCommit));
    emulation::set_order(emulation::Order::kAscending);
  }
  run(Without::kWait);
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
}

// One thread fills a buffer again and again, another reads it: who does not wait reads what is not there.
void hand_over(bool wait_until_full, float* out) {
  using namespace kernels::cuda;
  LONGHAUL_SHARED(shared);
  auto* barriers = reinterpret_cast<PhaseBarrier*>(shared);  // full, empty
  auto* value = reinterpret_cast<float*>(shared + 16);
  if (threadIdx.x == 0) {
    barriers[0].initialise(1);
    barriers[1].initialise(1);
  }
  __syncthreads();
  for (int round = 0; round < 5; ++round) {
    if (threadIdx.x == 32) {
      if (round > 0) barriers[1].wait(round - 1);
      *value = static_cast<float>(round);
      barriers[0].arrive();
    } else if (threadIdx.x == 0) {
      if (wait_until_full) barriers[0].wait(round);
      out[round] = *value;
      barriers[1].arrive();
    }
  }
}
void use_before_initialising(int) {
  LONGHAUL_SHARED(shared);
  reinterpret_cast<kernels::cuda::PhaseBarrier*>(shared)->arrive();
}
void leave_someone_at_a_named_barrier(int) {
  if (threadIdx.x < 32) kernels::cuda::named_barrier_arrive(1, 64);
}
void wait_for_nobody(int) { kernels::cuda::named_barrier_meet(1, 64); }

TEST(CudaEmulation, BarriersKeepPhasesApart) {
  using kernels::cuda::launch;
  for (const emulation::Order order : {emulation::Order::kAscending, emulation::Order::kDescending, emulation::Order::kShuffled}) {
    emulation::set_order(order);
    std::vector<float> out(5, -1);
    launch("hand over", hand_over, 1, 64, 32, nullptr, true, out.data());
    EXPECT_EQ(out, (std::vector<float>{0, 1, 2, 3, 4}));
    emulation::set_order(emulation::Order::kAscending);
  }
  emulation::set_order(emulation::Order::kDescending);
  std::vector<float> out(5, -1);
  EXPECT_ANY_THROW(launch("hand over", hand_over, 1, 64, 32, nullptr, false, out.data()));  // two phases on, the writer waits for ever
  emulation::set_order(emulation::Order::kAscending);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_ANY_THROW(launch("early", use_before_initialising, 1, 32, 16, nullptr, 0));
  EXPECT_ANY_THROW(launch("left", leave_someone_at_a_named_barrier, 1, 64, 0, nullptr, 0));
  EXPECT_ANY_THROW(launch("alone", wait_for_nobody, 1, 32, 0, nullptr, 0));
}

}  // namespace
}  // namespace longhaul::gpu_check
