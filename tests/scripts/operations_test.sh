#!/usr/bin/env bash
# docs/guides/operations.md tells of everything that may meet whoever operates runs: each exit code, check, limit, class of incidents, metric and shipped alert.
#   operations_test.sh SOURCE_ROOT
set -euo pipefail
root=$1 page=$1/docs/guides/operations.md missing=0

require() {  # require WHAT TEXT: TEXT stands in the page
  grep -qF -- "$2" "$page" || { echo "docs/guides/operations.md does not tell of $1: '$2'"; missing=1; }
}

codes=$(sed -n '/^enum class ExitCode/,/^};/s/.*= \([0-9]*\),.*/\1/p' "$root/src/base/error.h")
[[ $(wc -l <<<"$codes") -ge 15 ]] || { echo 'the exit codes are not where they were'; exit 1; }
for code in $codes; do require "exit code $code" "| $code | "; done

limits=$(sed -n '/^const std::vector<Limit>& default_limits/,/^}/s/^ *{"\([a-z_]*\)".*/\1/p' "$root/src/control/checks/self_check.cpp")
checks=$(sed -n '/^const std::vector<Check>& all_checks/,/^}/s/^ *{"\([a-z_]*\)".*/\1/p' "$root/src/control/checks/self_check.cpp")
[[ $(wc -l <<<"$limits") -ge 10 && $(wc -l <<<"$checks") -ge 5 ]] || { echo 'the checks are not where they were'; exit 1; }
for limit in $limits; do require "the limit $limit" "| \`$limit\` |"; done
for check in $checks; do require "the check $check" "| $check | "; done

if [[ -f $root/src/control/faults.cpp ]]; then
  for class in $(grep -Pzo 'kFaultNames\w* = \{[^}]*\}' "$root/src/control/faults.cpp" | tr -d '\0' | grep -o '"[a-z_]*"' | tr -d '"' | sort -u); do require "incidents of class $class" "$class"; done
fi
metrics=$root/src/observe/watch/run_metrics.cpp
if [[ -f $metrics ]]; then
  for name in $(grep -oP '"longhaul_\K[a-z_]+' "$metrics" | sort -u); do grep -qE "\`$name(_total|_info)?\`" "$page" || require "the metric $name" "\`$name\`"; done
fi
for alert in $(grep -rhoP '^\s*- alert:\s*\K\w+' "$root/deploy" || true); do require "the alert $alert" "$alert"; done
exit "$missing"
