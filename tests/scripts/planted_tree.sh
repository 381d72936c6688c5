# Sourced by the tests of scripts/check-*, which define plant_clean_tree. It makes an empty folder, "$tree", and counts "$failures".
source_root=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# expect_silence SCRIPT: the clean tree passes and nothing is printed.
expect_silence() {
  local output
  plant_clean_tree
  if output=$("$source_root/scripts/$1" "$tree" 2>&1) && [[ -z $output ]]; then
    echo "ok     clean tree"
  else
    echo "FAILED clean tree: $output"
    failures=$((failures + 1))
  fi
}

# expect_report SCRIPT NAME PATTERN: the tree as it is fails, and what is printed matches the glob PATTERN.
expect_report() {
  local script=$1 name=$2 pattern=$3 output
  if output=$("$source_root/scripts/$script" "$tree" 2>&1); then
    echo "FAILED $name: it was not noticed"
  elif [[ $output != $pattern ]]; then
    echo "FAILED $name: expected $pattern, got: $output"
  else
    echo "ok     $name"
    return 0
  fi
  failures=$((failures + 1))
}
