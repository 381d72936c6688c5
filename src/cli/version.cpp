#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/machine/machine.h"
#include "base/version.h"
#include "cli/register.h"
#include "tensor/libtorch_folder.h"

namespace longhaul::cli {

std::string version_text() {
  const BuildVersion& build = build_version();
  return fmt::format("longhaul {}\ncommit {}\ncompiler {}\nLibTorch {}\nCPU features {}", build.version,
                     build.commit, build.compiler, libtorch_version(), fmt::join(machine().features, " "));
}

}  // namespace longhaul::cli
