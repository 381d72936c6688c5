#include "base/process/limited_process.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace longhaul {
namespace {

TEST(LimitedProcess, ReadsWhatItIsGiven) {
  std::string long_input(300'000, 'x');
  const LimitedResult result =
      run_limited({.argv = {"sh", "-c", "wc -c; echo told >&2; exit 3"}, .input = long_input});
  EXPECT_EQ(result.output, "300000\n");
  EXPECT_EQ(result.errors, "told\n");
  EXPECT_EQ(result.status, 3);
  EXPECT_FALSE(result.timed_out || result.left_behind);
}

TEST(LimitedProcess, NeedNotReadIt) {
  const LimitedResult result = run_limited({.argv = {"true"}, .input = std::string(300'000, 'x')});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(run_limited({.argv = {"cat"}}).output, "");
}

TEST(LimitedProcess, IsKilledWhenItsTimeIsOver) {
  const Stopwatch watch;
  const LimitedResult result =
      run_limited({.argv = {"sh", "-c", "sleep 1000 & sleep 1000"}, .timeout_s = 0.2});
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.left_behind);
  EXPECT_LT(watch.seconds(), 500) << "it did not wait for its end";
}

TEST(LimitedProcess, WhatItLeavesBehindIsKilledAndTold) {
  const LimitedResult result = run_limited({.argv = {"sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo done"}});
  EXPECT_EQ(result.output, "done\n");
  EXPECT_TRUE(result.left_behind);
}

}  // namespace
}  // namespace longhaul
