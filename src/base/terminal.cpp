#include "base/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace longhaul {

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

bool colours_wanted(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return is_terminal(stream);
}

}  // namespace longhaul
