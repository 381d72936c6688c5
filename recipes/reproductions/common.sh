# What the reproductions share. Sourced, never run.
#
# LONGHAUL names the program, SEEDS the seeds (default: 1 2 3), STEPS how long each run trains (default: as its recipe says), OPTIONS further
# options of every run, for example train.threads=1 where several scripts run at once.
set -euo pipefail
root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
longhaul=${LONGHAUL:-$root/longhaul}
read -ra seeds <<<"${SEEDS:-1 2 3}"
read -ra options <<<"${OPTIONS:-}"

# train RUN RECIPE [key=value …]   one run; done before: nothing happens, interrupted: it goes on. Its log stands beside it.
train() {
  local run=$1 recipe=$2
  shift 2
  mkdir -p "${run%/*}"
  echo "training $run" >&2
  "$longhaul" train "$root/recipes/reproductions/$recipe" ${STEPS:+"train.steps=$STEPS"} "$@" "${options[@]}" --run "$run" >"$run.log" 2>&1 ||
    { tail -n 20 "$run.log" >&2 && exit 1; }
}

# last_of RUN FIELD   of the newest evaluation of held-out data
last_of() { grep '"event":"evaluation"' "$1/events.jsonl" | tail -n 1 | grep -o "\"$2\":[-+0-9.e]*" | cut -d: -f2; }

# spread FIELD RUN…   mean, least and largest of the runs
spread() {
  local field=$1 run
  shift
  for run in "$@"; do last_of "$run" "$field"; done |
    awk '{ sum += $1; if (NR == 1 || $1 < low) low = $1; if (NR == 1 || $1 > high) high = $1 } END { printf "%.4f (%.4f to %.4f)", sum / NR, low, high }'
}
