// The logger of base/log.h inside another's process: warnings and errors are LibTorch's warnings, which
// Python shows as its own.
#include "base/log.h"

#include <c10/util/Exception.h>

namespace longhaul {

bool log_shows(LogLevel level) { return level == LogLevel::kWarning || level == LogLevel::kError; }

void log_line(LogLevel level, std::string_view text) {
  if (log_shows(level)) TORCH_WARN("longhaul: ", text);
}

}  // namespace longhaul
