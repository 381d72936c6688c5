#include <gnu/libc-version.h>

#include "base/version.h"
#include "control/checks/machine_checks.h"

namespace longhaul::control {

CheckFinding versions_check(const CheckContext& context, const std::vector<Fingerprint>& libraries) {
  CheckFinding finding{.name = "versions"};
  const BuildVersion& build = build_version();
  finding.fingerprints = {{"longhaul", build.version},
                          {"commit", build.commit},
                          {"compiler", build.compiler},
                          {"C library", gnu_get_libc_version()}};
  finding.fingerprints.insert(finding.fingerprints.end(), libraries.begin(), libraries.end());
  if (context.plant) finding.fingerprints.front().value += " of " + node_name() + " alone";
  for (const Fingerprint& print : finding.fingerprints)
    finding.found += (finding.found.empty() ? "" : ", ") + print.name + " " + print.value;
  return finding;
}

}  // namespace longhaul::control
