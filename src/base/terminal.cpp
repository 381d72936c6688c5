#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/log_form.h"
#include "base/process/signals.h"

namespace longhaul {

namespace {

bool wants_json(std::FILE* stream) { return stream == stderr && log_form() == LogForm::kJson; }

}  // namespace

void write_stream(std::FILE* stream, std::string_view text) {
  std::string line;
  if (wants_json(stream)) text = line = json_log_line(text);
  if (std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0) return;
  const int number = errno;
  std::clearerr(stream);
  throw Error({.code = ExitCode::kDisk,
               .what = "cannot write the result",
               .found = std::generic_category().message(number),
               .where = stream == stderr ? "standard error" : "standard output",
               .hint = "see where the output is redirected to: is that disk full?"});
}

bool say(std::FILE* stream, std::string_view text) noexcept {
  if (!wants_json(stream)) return say_as_it_is(stream, text);
  try {
    return say_as_it_is(stream, json_log_line(text));
  } catch (const std::exception&) {  // there is no memory for the line
    return false;
  }
}

bool say_as_it_is(std::FILE* stream, std::string_view text) noexcept {
  const BrokenPipesAreErrors no_signal;
  const bool said =
      std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
  std::clearerr(stream);
  return said;
}

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

bool colours_wanted(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return is_terminal(stream);
}

TerminalSize terminal_size(std::FILE* stream) {
  winsize size{};
  if (::ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {size.ws_col, size.ws_row};
}

}  // namespace longhaul
