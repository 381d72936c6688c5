// The form of messages on standard error: text for people, or JSON for what collects logs, one object a line
// (docs/reference/logs.md). Messages are what say() (base/terminal.h), the logger (base/log.h), progress bars
// and alarms write there; each is one line of JSON, however many lines its text has.
//
//   {"wall_time":1795228565.25,"monotonic_ns":81034456021,"level":"info","host":"node-3","process":4711,
//    "rank":0,"generation":1,"text":"checkpoint 100 is saved"}
//
// Thread-safe. The form is chosen once, before other threads begin.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/log.h"

namespace longhaul {

enum class LogForm { kText, kJson };

// LONGHAUL_LOG_FORMAT: "json", or "text", which is the default. kUsage for another value.
void choose_log_form();
void set_log_form(LogForm form);
LogForm log_form();

// The rank of this process in its run; it stands in every later line. Until then lines have none.
void set_log_rank(int64_t rank);

// The line of a message, with its newline. Bytes that are no UTF-8 are replaced.
std::string json_log_line(LogLevel level, std::string_view text);
// Likewise of a text that begins with "error: " or "warning: ", which becomes its level, or else is
// information. Empty lines around it are left out; empty where nothing else is there.
std::string json_log_line(std::string_view text);

// For signal handlers: writes a line in the chosen form, of which the last bytes are lost where it is longer
// than about 4,000. As JSON it has the time in seconds, the level and the text alone.
void write_message_in_signal(std::string_view text, std::string_view more = {}) noexcept;

}  // namespace longhaul
