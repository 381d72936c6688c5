// Devices, streams and events as far as a machine without a GPU can tell; what needs one is skipped, by name.
#include "tensor/device.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/process/loaded_library.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;

ErrorFields refused(std::string_view text, std::string_view where = "train.device") {
  try {
    device_named(text, where);
  } catch (const Error& error) {
    return error.fields();
  }
  ADD_FAILURE() << text << " was not refused";
  return {};
}

TEST(Device, TheCpuIsAlwaysThere) {
  EXPECT_EQ(device_named("cpu"), at::Device(at::kCPU));
  EXPECT_EQ(name_of(device_named("cpu")), "cpu");
  EXPECT_EQ(device_named("auto").is_cuda(), gpu_count() > 0);
}

TEST(Device, OtherTextsAreRefused) {
  for (const char* text :
       {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda0", "CPU", "cpu:0", "meta"}) {
    const ErrorFields fields = refused(text, "--device");
    EXPECT_EQ(fields.code, ExitCode::kUsage) << text;
    EXPECT_EQ(fields.found, text);
    EXPECT_EQ(fields.where, "--device");
    EXPECT_EQ(fields.expected, "auto, cpu, cuda or cuda:N");
  }
}

TEST(Device, AGpuThatIsNotThereIsRefused) {
  if (!libtorch_has_cuda()) {
    for (const char* text : {"cuda", "cuda:0", "cuda:7"}) {
      const ErrorFields fields = refused(text);
      EXPECT_EQ(fields.code, ExitCode::kUsage);
      EXPECT_EQ(fields.what, "this LibTorch computes on the CPU alone");
      EXPECT_THAT(fields.found, HasSubstr("without CUDA"));
      EXPECT_THAT(fields.hint, HasSubstr("train.device=cpu"));
    }
    return;
  }
  const ErrorFields fields = refused("cuda:4096");
  EXPECT_EQ(fields.code, ExitCode::kDevice);
  EXPECT_EQ(fields.what, gpu_count() == 0 ? "no GPU is visible" : "there is no such GPU");
  if (gpu_count() > 0) return;
  EXPECT_EQ(refused("cuda").code, ExitCode::kDevice);
  EXPECT_THAT(refused("cuda").hint, HasSubstr("train.device=cpu"));
}

TEST(Device, TheDriverThatIsNotThereSaysSo) {
  if (find_symbol("libcuda.so.1", "cuInit") != nullptr) GTEST_SKIP() << "a driver is installed here";
  try {
    describe_gpu(at::Device(at::kCUDA, 0));
    FAIL() << "described without a driver";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice);
    EXPECT_THAT(error.fields().found, HasSubstr("libcuda.so.1"));
  }
}

TEST(Device, EventsOfTheCpuAreTimes) {
  const at::Device cpu = at::kCPU;
  Stream stream = Stream::current(cpu);
  EXPECT_EQ(stream.device().type(), at::kCPU);
  EXPECT_EQ(stream.handle(), nullptr);
  EXPECT_EQ(current_stream(cpu), nullptr);
  Event begin(cpu), end(cpu);
  EXPECT_TRUE(begin.reached());
  EXPECT_THROW(end.milliseconds_since(begin), Error);
  begin.record(stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  end.record(stream);
  stream.wait(end);
  end.synchronize();
  stream.synchronize();
  synchronize(cpu);
  EXPECT_TRUE(end.reached());
  EXPECT_GE(end.milliseconds_since(begin), 20);
  begin.record(stream);
  EXPECT_LE(end.milliseconds_since(begin), 0) << "recording again moves the event";
}

TEST(Device, CopiesToADevice) {
  const Tensor host = at::arange(12).view({3, 4});
  EXPECT_TRUE(to_device(host, at::kCPU).is_same(host));
  const Tensor shape_only = to_device(host, at::kMeta);
  EXPECT_TRUE(shape_only.is_meta());
  EXPECT_EQ(shape_only.sizes(), host.sizes());
  const Tensor buffer = empty_host_tensor({2, 3}, at::kFloat, at::kCPU);
  EXPECT_TRUE(buffer.device().is_cpu());
  EXPECT_FALSE(buffer.is_pinned());
  const DeviceScope scope(at::kCPU);
}

TEST(Device, OnAGpu) {
  if (gpu_count() == 0) GTEST_SKIP() << "no GPU is visible here";
  const at::Device gpu = device_named("cuda:0");
  const DeviceScope scope(gpu);
  EXPECT_FALSE(describe_gpu(gpu).name.empty());
  EXPECT_GT(describe_gpu(gpu).memory_bytes, 0);
  reset_device_memory_peaks(gpu);
  Stream here = Stream::current(gpu), other = Stream::another(gpu);
  EXPECT_NE(here.handle(), other.handle());
  Event begin(gpu), end(gpu);
  begin.record(here);
  const Tensor host = at::arange(1 << 20, at::kFloat), there = to_device(host, gpu);
  const Tensor doubled = there + there;
  end.record(here);
  other.wait(end);
  EXPECT_GE(end.milliseconds_since(begin), 0);
  EXPECT_TRUE(end.reached());
  EXPECT_TRUE(at::equal(doubled.cpu(), host + host));
  EXPECT_TRUE(empty_host_tensor({4}, at::kFloat, gpu).is_pinned());
  const DeviceMemory memory = device_memory(gpu);
  EXPECT_GE(memory.peak_allocated_bytes, 8 << 20);
  EXPECT_GE(memory.total_bytes, memory.held_bytes);
  synchronize(gpu);
}

}  // namespace
}  // namespace longhaul
