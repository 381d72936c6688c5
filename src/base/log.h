// The logger of the process. Lines go to standard error, so that standard output stays free for results and
// --json.
//   log_info("loaded {} tokens", n);
// Thread-safe. Levels: debug, info, warning, error; the command line sets the level once. Progress bars
// (base/progress.h) count as information.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace longhaul {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

void set_log_level(LogLevel level);
bool log_shows(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace longhaul
