#include "base/log_form.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine/machine.h"

namespace longhaul {
namespace {

constexpr const char* kVariable = "LONGHAUL_LOG_FORMAT";
constexpr int64_t kNoRank = -1;

std::atomic<LogForm> form = LogForm::kText;  // signal handlers read it
static_assert(std::atomic<LogForm>::is_always_lock_free);
std::atomic<int64_t> rank = kNoRank;

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

std::string_view without_empty_lines(std::string_view text) {
  while (!text.empty() && text.front() == '\n') text.remove_prefix(1);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

void choose_log_form() {
  const char* const given = std::getenv(kVariable);
  const std::string_view wanted = given == nullptr ? "" : given;
  if (!wanted.empty() && wanted != "text" && wanted != "json") {
    throw Error({.code = ExitCode::kUsage,
                 .what = "unknown form of log lines",
                 .expected = "text or json",
                 .found = std::string(wanted),
                 .where = kVariable,
                 .hint = fmt::format("{}=json", kVariable)});
  }
  set_log_form(wanted == "json" ? LogForm::kJson : LogForm::kText);
}

void set_log_form(LogForm wanted) { form = wanted; }
LogForm log_form() { return form; }
void set_log_rank(int64_t own) { rank = own; }

std::string json_log_line(LogLevel level, std::string_view text) {
  static const std::string host = machine().host;
  static const char* const generation = std::getenv("LONGHAUL_GENERATION");
  nlohmann::ordered_json line{{"wall_time", wall_time_s()},
                              {"monotonic_ns", monotonic_ns()},
                              {"level", name_of(level)},
                              {"host", host},
                              {"process", ::getpid()}};
  if (rank != kNoRank) line["rank"] = rank.load();
  int64_t number = 0;
  const std::string_view digits = generation == nullptr ? "" : generation;
  if (!digits.empty() && std::from_chars(digits.begin(), digits.end(), number).ptr == digits.end())
    line["generation"] = number;
  line["text"] = text;
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string json_log_line(std::string_view text) {
  text = without_empty_lines(text);
  if (text.empty()) return {};
  for (const LogLevel level : {LogLevel::kError, LogLevel::kWarning}) {
    const std::string beginning = fmt::format("{}: ", name_of(level));
    if (text.starts_with(beginning)) return json_log_line(level, text.substr(beginning.size()));
  }
  return json_log_line(LogLevel::kInfo, text);
}

void write_message_in_signal(std::string_view text, std::string_view more) noexcept {
  const int before = errno;
  std::array<char, 8192> line{};
  size_t length = 0;
  const auto add = [&](std::string_view part) {
    for (const char c : part.substr(0, line.size() - length)) line[length++] = c;
  };
  const bool json = log_form() == LogForm::kJson;
  if (json) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.begin(), digits.end(), static_cast<int64_t>(::time(nullptr))).ptr;
    add(R"({"wall_time":)");
    add({digits.data(), static_cast<size_t>(end - digits.data())});
    add(R"(,"level":"info","text":")");
  }
  for (const std::string_view part : {text, more}) {
    for (const char& c : part.substr(0, 2000)) {
      if (json && (c == '"' || c == '\\')) add("\\");
      if (!json || (c >= ' ' && c <= '~')) add({&c, 1});
    }
  }
  add(json ? "\"}\n" : "\n");
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), length);
  errno = before;
}

}  // namespace longhaul
