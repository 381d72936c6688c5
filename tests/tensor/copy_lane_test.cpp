// Copies beside the device: what they are ordered behind and before, what stays until they are done, and a
// rate that is kept; on the CPU and on a device that queues.
#include "tensor/copy_lane.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "support/pretended_device.h"
#include "tensor/device.h"

namespace longhaul {
namespace {

Tensor bytes_of(int64_t bytes, int64_t value) { return at::full({bytes}, value, at::kByte); }

TEST(CopyLane, CopiesInOrder) {
  CopyLane lane("copies", at::kCPU);
  const Tensor host = bytes_of(1 << 20, 0);
  const auto first = lane.start(host, bytes_of(1 << 20, 3)), second = lane.start(host, bytes_of(1 << 20, 5));
  second->before_next();
  EXPECT_TRUE(first->done());
  EXPECT_TRUE(second->done());
  EXPECT_TRUE(host.eq(5).all().item<bool>());
  EXPECT_GE(first->seconds(), 0);
}

// The thread of one lane waits for a copy of the other, and nobody else does.
TEST(CopyLane, WaitsForAnothersCopy) {
  CopyLane down("down", at::kCPU, 64 * (1 << 20)), up("up", at::kCPU);
  const Tensor host = bytes_of(1 << 20, 0), back = bytes_of(1 << 20, 0);
  const auto there = down.start(host, bytes_of(1 << 20, 7));  // takes 16 ms at that rate
  const auto here = up.start(back, host, there);
  here->finish();
  EXPECT_TRUE(there->done());
  EXPECT_TRUE(back.eq(7).all().item<bool>());
}

TEST(CopyLane, HoldsTheSourceUntilItIsCopied) {
  const Tensor host = bytes_of(1 << 20, 0);
  Tensor source = bytes_of(1 << 20, 9);
  const c10::weak_intrusive_ptr<c10::StorageImpl> seen = source.storage().getWeakStorageImpl();
  CopyLane lane("copies", at::kCPU), before("before", at::kCPU, 64 * (1 << 20));
  const auto gate = before.start(bytes_of(1 << 20, 0), bytes_of(1 << 20, 0));  // 16 ms
  const auto copy = lane.start(host, source, gate);
  source = Tensor();
  EXPECT_FALSE(seen.expired() && !copy->done());
  copy->finish();
  EXPECT_TRUE(seen.expired()) << "nobody needs it any more";
  EXPECT_TRUE(host.eq(9).all().item<bool>());
}

// What is copied late is not early: 4 MiB at 128 MiB/s are 31 ms, however fast memory is.
TEST(CopyLane, KeepsToItsRate) {
  CopyLane lane("copies", at::kCPU, 128 * (1 << 20));
  const Tensor to = bytes_of(1 << 20, 0), from = bytes_of(1 << 20, 1);
  const Stopwatch watch;
  std::shared_ptr<Copy> last;
  for (int i = 0; i < 4; ++i) last = lane.start(to, from);
  last->finish();
  EXPECT_GE(watch.seconds(), 4.0 / 128);
  EXPECT_GE(last->seconds(), 0.9 / 128);
}

class CopyLaneOnADevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (libtorch_has_cuda()) GTEST_SKIP() << "LibTorch with CUDA takes no second accelerator";
    device_ = pretended_device();
  }
  std::optional<at::Device> device_;
};

// A copy to page-locked memory lands when its event is waited for, as on a GPU: until then its source stays,
// although the program has dropped it, and the way back comes behind it.
TEST_F(CopyLaneOnADevice, CopiesLandBehindEvents) {
  CopyLane down("down", *device_), up("up", *device_);
  Tensor source = to_device(bytes_of(64, 4), *device_);
  const c10::weak_intrusive_ptr<c10::StorageImpl> seen = source.storage().getWeakStorageImpl();
  const Tensor host = empty_host_tensor({64}, at::kByte, *device_);
  const auto copy = down.start(host, source);
  source = Tensor();
  EXPECT_FALSE(copy->done());
  down.let_go();
  EXPECT_FALSE(seen.expired()) << "freed while it is read";
  copy->finish();
  EXPECT_TRUE(host.eq(4).all().item<bool>());
  down.let_go();
  EXPECT_TRUE(seen.expired());
  const Tensor back = at::empty({64}, at::TensorOptions().dtype(at::kByte).device(*device_));
  up.start(back, host, copy)->before_next();
  EXPECT_TRUE(back.cpu().eq(4).all().item<bool>());
}

}  // namespace
}  // namespace longhaul
