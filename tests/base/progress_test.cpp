#include "base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/parallel.h"

namespace longhaul {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

TEST(ProgressText, BytesAndCounts) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(46'412'345), "46.4 MB");
  EXPECT_EQ(bytes_text(999'960), "1.0 MB");  // not "1000.0 kB"
  EXPECT_EQ(bytes_text(INT64_MAX), "9.2 EB");
  EXPECT_EQ(count_text(7), "7");
  EXPECT_EQ(count_text(2285), "2,285");
  EXPECT_EQ(count_text(-123456), "-123,456");
  EXPECT_EQ(count_text(456'089'655'296), "456,089,655,296");
}

TEST(ProgressText, LineAndBar) {
  using Unit = Progress::Unit;
  EXPECT_EQ(progress_text("tokenizing", 10'000'000, 40'000'000, Unit::kBytes, 5, false),
            "tokenizing 25%  10.0 MB of 40.0 MB  2.0 MB/s  15.0 s left");
  EXPECT_EQ(progress_text("reading", 500, 1000, Unit::kTokens, 1, true),
            "reading [############............] 50%  500 tokens of 1,000 tokens  500 tokens/s  1.0 s left");
  EXPECT_EQ(progress_text("files", 12, 0, Unit::kCount, 4, true), "files  12  3/s");
  EXPECT_THAT(progress_text("over", 12, 10, Unit::kCount, 4, true), HasSubstr("100%"));
}

void work_for(double seconds) {
  Progress progress("counting", 1000);
  const Stopwatch watch;
  while (watch.seconds() < seconds) {
    progress.advance(1);
    usleep(5000);
  }
}

TEST(Progress, IsSilentWhenTheWorkIsShort) {
  testing::internal::CaptureStderr();
  work_for(0.3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, PrintsPlainLinesWhenNotOnATerminal) {
  testing::internal::CaptureStderr();  // a file
  work_for(2.2);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, MatchesRegex("counting [0-9]+%  .* left\ncounting: [0-9,]+ in 2\\.[0-9] s \\([0-9,]+/s\\)\n"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

TEST(Progress, RedrawsABarOnATerminal) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) GTEST_SKIP() << "no pseudo-terminals here";
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (terminal < 0) GTEST_SKIP() << "no pseudo-terminals here";
  const int saved = dup(STDERR_FILENO);
  dup2(terminal, STDERR_FILENO);
  work_for(2.5);
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(master, buffer, sizeof buffer)) > 0;) text.append(buffer, count);
  close(terminal);
  close(master);
  EXPECT_THAT(text, HasSubstr("\rcounting ["));
  EXPECT_GE(std::count(text.begin(), text.end(), '\r'), 3);
  EXPECT_THAT(text, HasSubstr("counting: "));
}

TEST(Progress, CountsFromSeveralThreads) {
  testing::internal::CaptureStderr();
  {
    Progress progress("counting", 0);
    set_threads(4);
    const Stopwatch watch;
    while (watch.seconds() < 2.05) parallel_for(0, 4, 1, [&](int64_t, int64_t) { progress.advance(0); });
    parallel_for(0, 4000, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) progress.advance(1);
    });
    set_threads(0);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("counting: 4,000 in "));
}

}  // namespace
}  // namespace longhaul
