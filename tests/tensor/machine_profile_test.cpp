// ctest: label=full timeout=300
#include "tensor/machine_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class Profile : public ::testing::Test {
 protected:
  Profile() { ::setenv("LONGHAUL_CACHE", folder_.path().c_str(), 1); }
  ~Profile() override { ::unsetenv("LONGHAUL_CACHE"); }
  fs::path file() const {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder_ / "machine-profile", none)) return entry.path();
    return {};
  }
  json kept() const { return json::parse(read_text(file())); }
  void keep(const json& profile) const { write_text_atomically(file(), profile.dump()); }

  TemporaryFolder folder_;
};

TEST_F(Profile, IsTheBestOfAllMeasurementsAndSaysWhenTheyWere) {
  const double before = wall_time_s();
  const MachineProfile first = measured_profile();
  EXPECT_GE(first.gemm_bf16, first.gemm_fp32)
      << "or runs in bf16 would reach more than all of the peak, where bf16 is widened";
  EXPECT_FALSE(first.from_cache);
  EXPECT_GE(first.measured_at, before);
  // a busy machine is told of behind it
  EXPECT_THAT(first.when(), ::testing::StartsWith("measured " + wall_time_text(first.measured_at)));

  // As if two rates had been measured on a quiet machine and two on a busy one.
  json profile = kept();
  const double fast = 1e3 * first.gemm_fp32;
  profile["gemm_fp32"] = fast;
  profile["gemm_fp64"] = 1.0;
  profile["memory_bytes_per_second"] = 1.0;
  profile["busy"] = false;
  profile["measured_at"] = 1e9;
  keep(profile);
  const MachineProfile cached = measured_profile();
  EXPECT_TRUE(cached.from_cache);
  EXPECT_EQ(cached.gemm_fp64, 1.0);  // as it was kept
  EXPECT_THAT(cached.when(), ::testing::HasSubstr("2001-09-09"));

  const MachineProfile again = measured_profile(/*fresh=*/true);
  EXPECT_EQ(again.gemm_fp32, fast);
  EXPECT_GT(again.gemm_fp64, 1e6);
  EXPECT_GT(again.memory_bytes_per_second, 1e6);
  EXPECT_GE(again.measured_at, before);
  EXPECT_FALSE(again.busy);  // the earlier one was not
  EXPECT_THAT(again.when(), ::testing::EndsWith(", the best of 2"));
  EXPECT_EQ(kept()["gemm_fp32"], fast);
  EXPECT_EQ(measured_profile().measurements, 2);
}

TEST_F(Profile, OfABusyMachineIsMeasuredAgainWhenItIsAnHourOld) {
  measured_profile();
  json profile = kept();
  profile["busy"] = true;
  keep(profile);
  EXPECT_TRUE(measured_profile().from_cache);
  profile["measured_at"] = wall_time_s() - 3700;
  keep(profile);
  EXPECT_FALSE(measured_profile().from_cache);
}

// A step of training that was faster than the benchmark. Nothing is measured here: the file is as an earlier
// start has left it.
TEST_F(Profile, ARateThatWasReachedIsKept) {
  raise_profile("fp32", 1e15);
  EXPECT_TRUE(file().empty()) << "no profile: the first measurement makes one";
  measured_profile();
  json profile = kept();
  const auto rates = [](const MachineProfile& of) {
    return std::vector<double>{of.gemm_fp32, of.gemm_bf16, of.gemm_fp64};
  };
  profile["gemm_fp32"] = 5e9, profile["gemm_bf16"] = 8e9, profile["gemm_fp64"] = 2e9;
  keep(profile);
  raise_profile("fp64", 1e9);
  EXPECT_THAT(rates(measured_profile()), ::testing::ElementsAre(5e9, 8e9, 2e9)) << "a lower rate";
  raise_profile("fp64", 3e9);
  raise_profile("fp32", 7e9);
  EXPECT_THAT(rates(measured_profile()), ::testing::ElementsAre(7e9, 8e9, 3e9));
  raise_profile("fp32", 9e9);
  EXPECT_THAT(rates(measured_profile()), ::testing::ElementsAre(9e9, 9e9, 3e9))
      << "bf16 is widened: it is at least as fast";
  raise_profile("bf16", 12e9);
  EXPECT_THAT(rates(measured_profile()), ::testing::ElementsAre(9e9, 12e9, 3e9));
}

}  // namespace
}  // namespace longhaul
