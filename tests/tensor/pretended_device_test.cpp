// The face of devices on a device that queues: copies that land late, events behind them, memory that the
// host cannot read.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "support/pretended_device.h"
#include "tensor/device.h"
#include "tensor/queue_marks.h"
#include "tensor/random_fill.h"
#include "tensor/to_tensor.h"

namespace longhaul {
namespace {

class PretendedDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (libtorch_has_cuda()) GTEST_SKIP() << "LibTorch with CUDA takes no second accelerator";
    device_ = pretended_device();
    pretended_reads();
  }
  std::optional<at::Device> device_;
};

TEST_F(PretendedDevice, CopiesAndOperators) {
  const Tensor host = at::arange(12, at::kFloat).view({3, 4});
  const Tensor there = to_device(host, *device_);
  EXPECT_EQ(there.device(), *device_);
  EXPECT_EQ(pretended_reads(), 0);
  EXPECT_TRUE(at::equal((there.t() + there.t()).cpu(), (host.t() + host.t())));
  EXPECT_EQ(pretended_reads(), 1);
  EXPECT_THROW(there + host, c10::Error) << "tensors of two devices";
  EXPECT_DOUBLE_EQ((there + 1).sum().item<double>(), 78);
  EXPECT_EQ(pretended_reads(), 1);
  const std::vector<int64_t> numbers = {3, 1, 2};
  EXPECT_TRUE(at::equal(to_tensor(numbers, *device_).cpu(), to_tensor(numbers)));
}

TEST_F(PretendedDevice, TheHostCannotReadItsMemory) {
  const Tensor there = to_device(at::ones({4}), *device_);
  EXPECT_DEATH(
      {
        volatile float value = *there.const_data_ptr<float>();
        (void)value;
      },
      "");
}

TEST_F(PretendedDevice, AQueuedCopyLandsWhenItsEventIsWaitedFor) {
  const Tensor there = to_device(at::full({8}, 2.5), *device_);
  Tensor host = empty_host_tensor({8}, at::kFloat, *device_);
  ASSERT_TRUE(host.is_pinned());
  Event copied(*device_);
  EXPECT_TRUE(copied.reached());
  host.copy_(there, /*non_blocking=*/true);
  copied.record(Stream::current(*device_));
  there.fill_(7);  // queued behind the copy
  EXPECT_FALSE(copied.reached());
  EXPECT_TRUE(host.isnan().all().item<bool>());
  copied.synchronize();
  EXPECT_TRUE(copied.reached());
  EXPECT_TRUE(host.eq(2.5).all().item<bool>());
  EXPECT_EQ(pretended_reads(), 0);
  EXPECT_GE(copied.milliseconds_since(copied), 0);
  EXPECT_NE(current_stream(*device_), nullptr);
  EXPECT_NE(Stream::another(*device_).handle(), current_stream(*device_));
  host.copy_(there, /*non_blocking=*/true);
  synchronize(*device_);
  EXPECT_TRUE(host.eq(7).all().item<bool>());
}

// Every device starts from the same weights, whatever it is asked to round them to.
TEST_F(PretendedDevice, RandomNumbersAreTheSameEverywhere) {
  const RandomStream stream(7, "init/test");
  for (const ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const Tensor here = at::empty({5, 6}, type),
                 there = at::empty({5, 6}, at::TensorOptions().dtype(type).device(*device_));
    fill_normal(here, stream, 0.02, {10, 6}, {{5, 0}, {5, 6}});
    fill_normal(there, stream, 0.02, {10, 6}, {{5, 0}, {5, 6}});
    EXPECT_TRUE(at::equal(here, there.cpu()));
  }
}

// Marks in a device's queue are times since the begin of a step, in the order in which they were queued; the
// second step uses the events of the first.
TEST_F(PretendedDevice, MarksAreTimesOfItsQueue) {
  QueueMarks marks(*device_);
  const auto wait_ms = [](int64_t ms) {
    for (const int64_t until = monotonic_ns() + ms * 1'000'000; monotonic_ns() < until;) continue;
  };
  for (const int step : {1, 2}) {
    marks.restart();
    wait_ms(3);
    EXPECT_EQ(marks.mark(), 0u);
    wait_ms(2);
    EXPECT_EQ(marks.mark(), 1u);
    const std::vector<double> seconds = marks.seconds();
    ASSERT_EQ(seconds.size(), 2u) << step;
    EXPECT_GE(seconds[0], 2.9e-3);
    EXPECT_GE(seconds[1] - seconds[0], 1.9e-3);
  }
}

}  // namespace
}  // namespace longhaul
