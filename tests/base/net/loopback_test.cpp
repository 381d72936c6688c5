#include "base/net/loopback.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace longhaul {
namespace {

TEST(Loopback, BytesArriveAsTheyWereSent) {
  for (const int64_t bytes : {int64_t{0}, int64_t{5} << 20}) {
    const LoopbackRate rate = measured_loopback(bytes);
    EXPECT_TRUE(rate.intact);
    EXPECT_EQ(rate.bytes, std::max<int64_t>(bytes, 1 << 20)) << "whole blocks, one at least";
    EXPECT_GT(rate.bytes_per_second, 0);
    EXPECT_GT(rate.round_trip_ms, 0);
  }
}

TEST(Loopback, NothingStaysOpen) {
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  measured_loopback(1 << 20);
  const auto before = open_files();
  for (int i = 0; i < 5; ++i) measured_loopback(1 << 20);
  EXPECT_EQ(open_files(), before);
}

}  // namespace
}  // namespace longhaul
