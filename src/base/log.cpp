#include "base/log.h"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include "base/log_form.h"
#include "base/process/signals.h"
#include "base/progress.h"
#include "base/terminal.h"

namespace longhaul {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Each line stands alone, also while a progress bar is on the terminal.
class Sink final : public spdlog::sinks::ansicolor_stderr_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const ProgressPause pause;
    const BrokenPipesAreErrors no_signal;
    spdlog::sinks::ansicolor_stderr_sink_mt::log(message);
  }
};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("longhaul", std::make_shared<Sink>());
    made->set_pattern("%H:%M:%S %^%l%$ %v");
    return made;
  }();
  return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(spdlog_level(level)); }
bool log_shows(LogLevel level) { return logger().should_log(spdlog_level(level)); }
void log_line(LogLevel level, std::string_view text) {
  if (log_form() == LogForm::kText) return logger().log(spdlog_level(level), text);
  if (log_shows(level)) say_as_it_is(stderr, json_log_line(level, text));
}

}  // namespace longhaul
