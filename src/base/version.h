// The version of this build: it is written into runs and checkpoints, and printed by --version.
#pragma once

#include <string>

namespace longhaul {

struct BuildVersion {
  std::string version;   // "0.1.0"
  std::string commit;    // of the source tree when it was configured; "unknown" outside a git checkout
  std::string compiler;  // "GNU 12.2.0"
};

const BuildVersion& build_version();

}  // namespace longhaul
