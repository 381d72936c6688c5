// The standard streams: writing all of a text or saying why not, whether a stream is a terminal, and whether
// colours are wanted there (https://no-color.org: any non-empty NO_COLOR turns them off, as does TERM=dumb).
//
// There are exactly two ways to print. A command's result goes through write_stream(): where it cannot be
// written the command fails (73). Everything else is a message, and goes through say() or the logger: the
// reader may be gone, or the disk of a redirection may be full, and neither changes what the program does or
// its exit code. Where log lines are JSON (base/log_form.h), so is everything that goes to standard error.
#pragma once

#include <cstdio>
#include <string_view>

namespace longhaul {

// Writes and flushes. kDisk when that fails (a full disk of a redirection); the stream can be used again
// afterwards.
void write_stream(std::FILE* stream, std::string_view text);
// Writes and flushes; false: it could not. It throws nothing, and a pipe without a reader raises no signal.
bool say(std::FILE* stream, std::string_view text) noexcept;
bool say_as_it_is(std::FILE* stream, std::string_view text) noexcept;  // whatever the form of log lines is
bool is_terminal(std::FILE* stream);
bool colours_wanted(std::FILE* stream);
struct TerminalSize {
  int columns = 80, rows = 24;
};
TerminalSize terminal_size(std::FILE* stream);  // the default where it is unknown

}  // namespace longhaul
