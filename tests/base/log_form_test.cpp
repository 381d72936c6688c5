#include "base/log_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine/machine.h"
#include "base/terminal.h"

namespace longhaul {
namespace {

using nlohmann::json;

// Everything that is written to standard error meanwhile.
std::string errors_of(const std::function<void()>& writes) {
  ::testing::internal::CaptureStderr();
  writes();
  return ::testing::internal::GetCapturedStderr();
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

class JsonLog : public ::testing::Test {
 protected:
  JsonLog() { set_log_form(LogForm::kJson); }
  ~JsonLog() override { set_log_form(LogForm::kText), set_log_level(LogLevel::kInfo), set_log_rank(-1); }
};

TEST_F(JsonLog, ALineHasWhatTheLoggerKnows) {
  const double before = wall_time_s();
  const json line = lines_of(errors_of([] { log_warning("the disk has {} % left", 3); })).at(0);
  EXPECT_EQ(line["text"], "the disk has 3 % left");
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["host"], machine().host);
  EXPECT_EQ(line["process"], ::getpid());
  EXPECT_GE(line["wall_time"].get<double>(), before);
  EXPECT_LE(line["wall_time"].get<double>(), wall_time_s());
  EXPECT_LE(line["monotonic_ns"].get<int64_t>(), monotonic_ns());
  EXPECT_FALSE(line.contains("rank"));
  set_log_rank(3);
  EXPECT_EQ(json::parse(json_log_line(LogLevel::kDebug, "x"))["rank"], 3);
}

TEST_F(JsonLog, LevelsAreThoseOfTheLogger) {
  const auto all = [] {
    return lines_of(errors_of([] {
      log_line(LogLevel::kDebug, "a");
      log_info("b");
      log_warning("c");
      log_error("d");
    }));
  };
  std::vector<std::string> levels;
  for (const json& line : all()) levels.push_back(line["level"]);
  EXPECT_THAT(levels, ::testing::ElementsAre("info", "warning", "error"));
  set_log_level(LogLevel::kWarning);
  EXPECT_EQ(all().size(), 2u);
}

TEST_F(JsonLog, AnyTextIsOneLine) {
  for (const std::string text : {"two\nlines", "\"quoted\" \\ back", "tab\t, bell \a", "ünïcode"}) {
    const std::vector<json> lines = lines_of(json_log_line(LogLevel::kInfo, text));
    ASSERT_EQ(lines.size(), 1u) << text;
    EXPECT_EQ(lines[0]["text"], text);
  }
  EXPECT_EQ(json::parse(json_log_line(LogLevel::kInfo,
                                      "a\xff"
                                      "b"))["text"],
            "a\xEF\xBF\xBD"
            "b");
}

TEST_F(JsonLog, MessagesOfCommandsAreLinesToo) {
  const std::vector<json> lines = lines_of(errors_of([] {
    EXPECT_TRUE(say(stderr, "error: it failed\n  expected  more\n\n"));
    EXPECT_TRUE(say(stderr, "\nwarning: it may fail\n"));
    EXPECT_TRUE(say(stderr, "\nan errors: list\n"));
    EXPECT_TRUE(say(stderr, "\n"));
    write_stream(stderr, "a result\n");
    write_message_in_signal("\nC:\\a \"b\"", " and c");
  }));
  std::vector<std::string> said;
  for (const json& line : lines)
    said.push_back(line["level"].get<std::string>() + "|" + line["text"].get<std::string>());
  EXPECT_THAT(said,
              ::testing::ElementsAre("error|it failed\n  expected  more", "warning|it may fail",
                                     "info|an errors: list", "info|a result", "info|C:\\a \"b\" and c"));
  // Other streams are left alone.
  std::FILE* file = std::tmpfile();
  EXPECT_TRUE(say(file, "plain\n"));
  EXPECT_EQ(std::ftell(file), 6);
  std::fclose(file);
}

TEST_F(JsonLog, AMessageInASignalIsCutBeforeItsEnd) {
  const std::vector<json> lines =
      lines_of(errors_of([] { write_message_in_signal(std::string(9000, '"'), std::string(9000, '\\')); }));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["text"].get<std::string>(), std::string(2000, '"') + std::string(2000, '\\'));
}

TEST(LogForm, TextIsAsItWas) {
  EXPECT_EQ(errors_of([] {
              say(stderr, "error: it failed\n\n");
              write_message_in_signal("heard");
            }),
            "error: it failed\n\nheard\n");
}

TEST(LogForm, IsChosenByAVariable) {
  for (const auto& [value, form] : {std::pair("json", LogForm::kJson), std::pair("text", LogForm::kText),
                                    std::pair("", LogForm::kText)}) {
    ::setenv("LONGHAUL_LOG_FORMAT", value, 1);
    choose_log_form();
    EXPECT_EQ(log_form(), form) << value;
  }
  ::setenv("LONGHAUL_LOG_FORMAT", "xml", 1);
  try {
    choose_log_form();
    ADD_FAILURE() << "xml";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("LONGHAUL_LOG_FORMAT=json"), std::string::npos);
  }
  ::unsetenv("LONGHAUL_LOG_FORMAT");
  choose_log_form();
  EXPECT_EQ(log_form(), LogForm::kText);
}

}  // namespace
}  // namespace longhaul
