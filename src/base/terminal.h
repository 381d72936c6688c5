// Whether a stream is a terminal, and whether colours are wanted there (https://no-color.org: any non-empty NO_COLOR
// turns them off, as does TERM=dumb).
#pragma once

#include <cstdio>

namespace longhaul {

bool is_terminal(std::FILE* stream);
bool colours_wanted(std::FILE* stream);

}  // namespace longhaul
