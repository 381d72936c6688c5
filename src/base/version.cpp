#include "base/version.h"

namespace longhaul {

const BuildVersion& build_version() {
  static const BuildVersion version{LONGHAUL_VERSION, LONGHAUL_COMMIT, LONGHAUL_COMPILER};
  return version;
}

}  // namespace longhaul
