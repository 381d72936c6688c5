// The standard streams: writing all of a text or saying why not, whether a stream is a terminal, and whether colours are wanted there
// (https://no-color.org: any non-empty NO_COLOR turns them off, as does TERM=dumb).
#pragma once

#include <cstdio>
#include <string_view>

namespace longhaul {

// Written and flushed. kDisk when that fails (a full disk behind a redirection); the stream can be written again afterwards.
void write_stream(std::FILE* stream, std::string_view text);
// What a person sees beside the result of a program, and what nothing else depends on: where the stream cannot be written (its reader has gone,
// its disk is full) the program goes on, and the log says so once.
void show(std::FILE* stream, std::string_view text);
bool is_terminal(std::FILE* stream);
bool colours_wanted(std::FILE* stream);
struct TerminalSize {
  int columns = 80, rows = 24;
};
TerminalSize terminal_size(std::FILE* stream);  // as it is where it cannot be told

}  // namespace longhaul
