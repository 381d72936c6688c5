// LibTorch's tensors on the program's own memory.
#include "tensor/cpu_allocator.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/machine/machine.h"
#include "support/tensors.h"

namespace longhaul {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

class CpuAllocator : public ::testing::Test {
 protected:
  CpuAllocator() { install_cpu_allocator(); }
};

TEST_F(CpuAllocator, TensorsAreCountedUnderTheScopeOfTheirThread) {
  reset_memory_peaks();
  const int64_t before = memory_statistics().of(MemoryPurpose::kGradients).bytes;
  Tensor gradient;
  {
    const MemoryPurposeScope outer(MemoryPurpose::kOptimizer);
    {
      const MemoryPurposeScope scope(MemoryPurpose::kGradients);
      gradient = at::zeros({1000, 1000});
    }
    EXPECT_EQ(MemoryPurposeScope::current(), MemoryPurpose::kOptimizer);
  }
  EXPECT_EQ(MemoryPurposeScope::current(), MemoryPurpose::kOther);
  EXPECT_EQ(memory_statistics().of(MemoryPurpose::kGradients).bytes - before, 4'000'000);
  EXPECT_THAT(memory_table_text(memory_statistics()), HasSubstr("gradients"));
  gradient = Tensor();
  EXPECT_EQ(memory_statistics().of(MemoryPurpose::kGradients).bytes, before);
  EXPECT_GE(memory_statistics().of(MemoryPurpose::kGradients).peak, 4'000'000);
}

// What oneDNN, views, resizing, empty tensors and copies ask of an allocator.
TEST_F(CpuAllocator, ServesWhatLibTorchAsks) {
  c10::Allocator* allocator = c10::GetAllocator(c10::DeviceType::CPU);
  ASSERT_NE(allocator->raw_deleter(), nullptr);
  void* raw = allocator->raw_allocate(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(raw) % 64, 0u);
  allocator->raw_deallocate(raw);
  EXPECT_EQ(at::empty({0}).numel(), 0);
  Tensor grown = at::ones({10});
  grown.resize_({100000});
  EXPECT_EQ(grown.narrow(0, 0, 10).sum().item<float>(), 10);
  EXPECT_TRUE(at::arange(1000).to(at::kDouble).clone().equal(at::arange(1000).to(at::kDouble)));
  const Tensor a = testing::random_tensor({300, 200}, 1, at::kBFloat16),
               b = testing::random_tensor({200, 100}, 2, at::kBFloat16);
  EXPECT_LT(testing::relative_error(at::mm(a, b), at::mm(a.to(at::kDouble), b.to(at::kDouble))), 1e-2);
}

TEST_F(CpuAllocator, WithoutMemoryTheErrorShowsWhatTookHowMuch) {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  const Tensor held = at::zeros({1000});
  try {
    const Tensor tensor = at::empty({4 * machine().memory_bytes}, at::kByte);
    FAIL() << "four times the machine's memory was handed out";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kOutOfMemory);
    EXPECT_THAT(error.what(), HasSubstr("for activations"));
    EXPECT_THAT(error.what(), HasSubstr("in use"));
    EXPECT_THAT(error.what(), HasSubstr("train.micro_batch"));
  }
}

TEST_F(CpuAllocator, PoisonedTensorsAreNaNAndGuarded) {
  const testing::PoisonFreshMemory poison;
  EXPECT_TRUE(at::empty({100}).isnan().all().item<bool>());
  EXPECT_TRUE(at::empty({100}, at::kBFloat16).isnan().all().item<bool>());
  EXPECT_TRUE(at::empty({100000}, at::kDouble).isnan().all().item<bool>());
  EXPECT_EQ(at::empty({3}, at::kLong)[1].item<int64_t>(), -1);
  Tensor tensor = at::zeros({7});
  float* behind = tensor.mutable_data_ptr<float>() + 7;
  const float guard = *behind;
  *behind = 1;
  EXPECT_THROW(check_memory_guards(), Error);
  *behind = guard;
  EXPECT_NO_THROW(check_memory_guards());
}

}  // namespace
}  // namespace longhaul
