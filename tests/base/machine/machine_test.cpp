#include "base/machine/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include "base/threads/parallel.h"

namespace longhaul {
namespace {

TEST(Machine, DescribesThisOne) {
  const Machine& here = machine();
  EXPECT_FALSE(here.host.empty());
  EXPECT_THAT(here.operating_system, ::testing::HasSubstr("Linux"));
  EXPECT_FALSE(here.processor.empty());
  EXPECT_EQ(here.cores, usable_cores());
  EXPECT_GT(here.memory_bytes, 64 << 20);
  EXPECT_GE(here.l3_bytes, 0);
  EXPECT_EQ(&here, &machine());
}

TEST(Machine, FeaturesAreOfTheDocumentedList) {
  const std::set<std::string> known = {"sse4_2",      "avx2",        "fma",      "avx512f",  "avx512bw",
                                       "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",
                                       "neon",        "neon_bf16",   "sve"};
  const auto& features = machine().features;
  for (const auto& feature : features) EXPECT_TRUE(known.count(feature)) << feature;
  const auto has = [&](const char* name) { return std::count(features.begin(), features.end(), name) == 1; };
  if (has("amx_bf16")) {
    EXPECT_TRUE(has("amx_tile"));
  }
  if (has("avx512_bf16")) {
    EXPECT_TRUE(has("avx512f"));
  }
#if defined(__x86_64__)
  EXPECT_EQ(has("avx2"), static_cast<bool>(__builtin_cpu_supports("avx2")));
#endif
}

TEST(Machine, MemoryOfThisProcess) {
  const int64_t before = resident_bytes();
  EXPECT_GT(before, 0);
  {
    const std::vector<char> block(64 << 20, 1);
    EXPECT_GT(resident_bytes(), before + (48 << 20)) << static_cast<int>(block[12345]);
  }
  EXPECT_GE(peak_resident_bytes(), before + (48 << 20));
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), machine().memory_bytes);
}

TEST(Machine, AddressSpaceThatIsLeft) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  if (before.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(free_address_space_bytes(), INT64_MAX);
  }
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const int64_t taken = pages * ::getpagesize(), left = int64_t{1} << 30;
  const rlimit limited{static_cast<rlim_t>(taken + left), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  const int64_t free = free_address_space_bytes();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_NEAR(static_cast<double>(free), static_cast<double>(left), 8e6);
}

}  // namespace
}  // namespace longhaul
