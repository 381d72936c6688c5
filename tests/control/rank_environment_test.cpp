// ctest: label=fast timeout=30
#include "control/node/rank_environment.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace longhaul::control {
namespace {

TEST(RankEnvironment, HoldsWhatARankNeedsAlone) {
  for (const char* needed :
       {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG",
        "LD_PRELOAD", "LONGHAUL_FAULTS", "SLURM_JOB_END_TIME", "ASAN_OPTIONS"})
    EXPECT_TRUE(rank_inherits(needed)) << needed;
  for (const char* other :
       {"AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "SSH_AUTH_SOCK", "PATHOLOGY", "MY_LC_", "PWD", "OLDPWD", "",
        "SLURM_JWT", "LONGHAUL_ALERT_TOKEN", "LONGHAUL_WEBHOOK", "NVIDIA_API_KEY", "TORCH_HUB_PASSWORD"})
    EXPECT_FALSE(rank_inherits(other)) << other;
}

TEST(RankEnvironment, MoreIsPassedByName) {
  ::setenv("SOME_TOKEN", "x=y", 1);
  EXPECT_EQ(passed_environment({"SOME_TOKEN", "OTHER=", "A=b=c"}),
            (std::vector<std::string>{"SOME_TOKEN=x=y", "OTHER=", "A=b=c"}));
  ::unsetenv("SOME_TOKEN");
  for (const char* wrong : {"SOME_TOKEN", "=x", "", "RANK=3", "LONGHAUL_BOARD"})
    EXPECT_THROW(passed_environment({wrong}), Error) << wrong;
}

}  // namespace
}  // namespace longhaul::control
