#include "base/process/process_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace longhaul {
namespace {

TEST(ProcessLimits, OpenFilesAreAllThatTheUserMayHave) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  raise_open_files();
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, std::min<rlim_t>(before.rlim_max, 1 << 20));
  raise_open_files();  // once is enough
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(now.rlim_cur, std::min<rlim_t>(before.rlim_max, 1 << 20));
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace longhaul
