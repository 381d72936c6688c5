#include "base/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/threads/parallel.h"

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
  EXPECT_EQ(progress_text("steps", 3, 0, Unit::kCount, 8, true), "steps  3  0.38/s");
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
  EXPECT_THAT(text,
              MatchesRegex("counting [0-9]+%  .* left\ncounting: [0-9,]+ in 2\\.[0-9] s \\([0-9,]+/s\\)\n"));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
}

// What `body` writes to standard error when that is a terminal; nothing where there are no pseudo-terminals.
template <class Body>
std::optional<std::string> on_a_terminal(Body body) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return std::nullopt;
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  if (terminal < 0) return std::nullopt;
  const int saved = dup(STDERR_FILENO);
  dup2(terminal, STDERR_FILENO);
  body();
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(master, buffer, sizeof buffer)) > 0;) text.append(buffer, count);
  close(terminal);
  close(master);
  return text;
}

// The lines a terminal shows after such output: carriage return, newline, erase to the end of the line,
// colours.
std::vector<std::string> screen_of(const std::string& text) {
  std::vector<std::string> lines(1);
  size_t column = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      column = 0;
    } else if (text[i] == '\n') {
      lines.emplace_back();
    } else if (text[i] == '\033') {
      const size_t end = text.find_first_of("Km", i);
      if (text[end] == 'K') lines.back().resize(std::min(lines.back().size(), column));
      i = end;
    } else {
      if (lines.back().size() <= column) lines.back().resize(column + 1, ' ');
      lines.back()[column++] = text[i];
    }
  }
  return lines;
}

TEST(Progress, LogLinesStandAloneAboveTheBar) {
  const auto text = on_a_terminal([] {
    Progress progress("counting", 1000);
    for (const Stopwatch watch; watch.seconds() < 2.2; usleep(5000)) progress.advance(1);
    log_warning("short");
    log_warning("and another one");
    for (const Stopwatch watch; watch.seconds() < 0.2; usleep(5000)) progress.advance(1);
    log_warning("last");
  });
  if (!text) GTEST_SKIP() << "no pseudo-terminals here";
  const auto lines = screen_of(*text);
  ASSERT_EQ(lines.size(), 5u) << *text;
  EXPECT_THAT(lines[0], MatchesRegex("[0-9:]+ warning short"));
  EXPECT_THAT(lines[1], MatchesRegex("[0-9:]+ warning and another one"));
  EXPECT_THAT(lines[2], MatchesRegex("[0-9:]+ warning last"));
  EXPECT_THAT(lines[3], MatchesRegex("counting: [0-9,]+ in .*"));
  EXPECT_EQ(lines[4], "");
  // The bar came back at once after a line, before its next redraw.
  const size_t line = text->find("another one");
  EXPECT_EQ(text->substr(text->find('\n', line) + 1, 11), "\rcounting [");
}

TEST(Progress, IsInformationAndHiddenWhereThatIs) {
  testing::internal::CaptureStderr();
  set_log_level(LogLevel::kWarning);
  work_for(2.2);
  set_log_level(LogLevel::kInfo);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, RedrawsABarOnATerminal) {
  const auto written = on_a_terminal([] { work_for(2.5); });
  if (!written) GTEST_SKIP() << "no pseudo-terminals here";
  const std::string& text = *written;
  EXPECT_THAT(text, HasSubstr("\rcounting ["));
  EXPECT_GE(std::count(text.begin(), text.end(), '\r'), 3);
  EXPECT_THAT(text, HasSubstr("counting: "));
}

TEST(ProgressParallel, CountsFromSeveralThreads) {
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
