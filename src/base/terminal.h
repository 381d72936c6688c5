// The standard streams: writing all of a text or saying why not, whether a stream is a terminal, and whether colours are wanted there
// (https://no-color.org: any non-empty NO_COLOR turns them off, as does TERM=dumb).
//
// There are two ways to print, and no third. A command's result goes through write_stream(): where it cannot be written the command has failed (73).
// All else is a message, and goes through say() or the logger: the reader may have gone, the disk behind a redirection may be full, and neither
// changes what the program does or the code that it ends with.
#pragma once

#include <cstdio>
#include <string_view>

namespace longhaul {

// Written and flushed. kDisk when that fails (a full disk behind a redirection); the stream can be written again afterwards.
void write_stream(std::FILE* stream, std::string_view text);
// Written and flushed where that can be done; false: it could not. Throws nothing, and a pipe that nobody reads raises no signal.
bool say(std::FILE* stream, std::string_view text) noexcept;
bool is_terminal(std::FILE* stream);
bool colours_wanted(std::FILE* stream);
struct TerminalSize {
  int columns = 80, rows = 24;
};
TerminalSize terminal_size(std::FILE* stream);  // as it is where it cannot be told

}  // namespace longhaul
