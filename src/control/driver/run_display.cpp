#include "control/driver/run_display.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/terminal.h"
#include "observe/events/event.h"

namespace longhaul::control {
namespace {

// The end of a long run's events, in which its last start is searched.
constexpr int64_t kHistory_bytes = 4 << 20;

}  // namespace

RunDisplay::RunDisplay(const std::filesystem::path& run_folder, int64_t log_every)
    : tail_(run_folder, "events.jsonl", kHistory_bytes),
      terminal_({.stream = stdout,
                 .colours = colours_wanted(stdout),
                 .alarm_colours = colours_wanted(stderr),
                 .log_every = log_every}) {}

void RunDisplay::poll(bool shows) {
  const bool now = shows && !first_;
  tail_.poll([&](std::string_view line) { take(line, now); });
  first_ = false;
}

void RunDisplay::take(std::string_view line, bool shows) {
  std::optional<observe::Event> event;
  try {
    event = observe::from_json(line, "events.jsonl");
  } catch (const Error&) {
    return;  // readers of the run report damage
  }
  // The number of planned steps, for the steps that are shown later.
  if (!event || (!shows && !std::holds_alternative<observe::RunStart>(event->body))) return;
  try {
    terminal_.on(*event);
    has_shown_ = has_shown_ || shows;
  } catch (const Error& error) {
    if (!std::exchange(told_, true))
      log_warning("driver: steps are not shown from here on: {}", error.fields().found);
  }
}

}  // namespace longhaul::control
