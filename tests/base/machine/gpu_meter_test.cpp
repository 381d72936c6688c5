#include "base/machine/gpu_meter.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

TEST(GpuMeter, MeansOverThoseThatAnswer) {
  const GpuMeter meter(
      {.count = [] { return int64_t{3}; },
       .busy_percent = [](int64_t gpu) { return std::optional<double>(static_cast<double>(10 * gpu)); },
       .memory_percent =
           [](int64_t gpu) {
             return gpu == 1 ? std::nullopt : std::optional<double>(static_cast<double>(gpu));
           },
       .temperature_c = [](int64_t) { return std::optional<double>(); },
       .clock_mhz = [](int64_t gpu) { return std::optional<double>(1000.0 + static_cast<double>(gpu)); }});
  EXPECT_EQ(meter.gpus(), 3);
  const GpuReading now = meter.read();
  EXPECT_EQ(now.busy_percent, 10.0);
  EXPECT_EQ(now.memory_percent, 1.0);  // of the first and the third
  EXPECT_EQ(now.temperature_c, std::nullopt) << "missing, not zero";
  EXPECT_EQ(now.clock_mhz, 1001.0);
}

// Whatever this machine has: with GPUs values that can be, without them none.
TEST(GpuMeter, OfThisMachine) {
  const GpuMeter meter;
  const GpuReading now = meter.read();
  EXPECT_EQ(now.busy_percent.has_value(), meter.gpus() > 0);
  if (meter.gpus() == 0) return;
  EXPECT_GE(*now.busy_percent, 0);
  EXPECT_LE(*now.busy_percent, 100);
  EXPECT_GT(*now.memory_percent, 0);
  EXPECT_LE(*now.memory_percent, 100);
  EXPECT_GT(*now.temperature_c, 0);
  EXPECT_LT(*now.temperature_c, 120);
  EXPECT_GT(*now.clock_mhz, 0);
}

}  // namespace
}  // namespace longhaul
