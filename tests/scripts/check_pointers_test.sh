#!/usr/bin/env bash
# scripts/check-pointers must accept a tree whose pointers lead somewhere and name each one that does not. Usage: check_pointers_test.sh SOURCE_ROOT
set -euo pipefail
source "$(dirname "$0")/planted_tree.sh"

plant_clean_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/docs/{sources,design} "$tree"/src/base
  printf '# A page\n## 5. Five\n### 5.2 Five two\n1. item\n## 6. Six\n- (6.3) item\n### A1. Part\n' >"$tree/docs/sources/facts.md"
  printf '# Mesh\nSee [facts](../sources/facts.md) and `sources/facts.md` §5.\n' >"$tree/docs/design/mesh.md"
  printf '// A mesh (docs/sources/facts.md §5.2, §6, A1; mesh.md). https://example.org/other.md is not ours.\n' >"$tree/src/base/mesh.h"
  printf '// The same across a line (docs/sources/facts.md\n// §5-6), and an item: docs/sources/facts.md §5.2.1, §6.3.\n' >"$tree/src/base/more.h"
}

# expect NAME TEXT LINE…: the clean tree with LINEs added to a header fails, and the report holds TEXT.
expect() {
  local name=$1 text=$2
  shift 2
  plant_clean_tree
  printf '%s\n' "$@" >"$tree/src/base/planted.h"
  expect_report check-pointers "$name" "src/base/planted.h:*$text*"
}

expect_silence check-pointers
expect "missing page" "there is no page docs/sources/lost.md" '// See docs/sources/lost.md §1.'
expect "missing bare name" "there is no page lost.md" '// See lost.md.'
expect "missing section" "facts.md has no section 7" '// See docs/sources/facts.md §7.'
expect "second of two sections" "facts.md has no section 9" '// See docs/sources/facts.md §5, §9.'
expect "end of a range" "facts.md has no section 5.4" '// See docs/sources/facts.md §5.2-5.4.'
expect "missing item" "facts.md has no section 6.4" '// See docs/sources/facts.md §6.4.'
expect "section on the next line" "2: docs/sources/facts.md has no section 8" '// A line.' '// See docs/sources/facts.md' '// §8.'
((failures == 0))
