#!/usr/bin/env bash
# scripts/check-pointers must accept a tree whose pointers, links and file names lead somewhere, and must name each one that
# does not. Usage: check_pointers_test.sh SOURCE_ROOT
set -euo pipefail
source "$(dirname "$0")/planted_tree.sh"

plant_clean_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/docs/{sources,design,reference} "$tree"/src/base
  printf '# A page\n## 5. Five\n### 5.2 Five two\n1. item\n## 6. Six\n- (6.3) item\n### A1. Part\n' >"$tree/docs/sources/facts.md"
  printf '# Mesh\nSee [facts](../sources/facts.md) and `sources/facts.md` §5.\n' >"$tree/docs/design/mesh.md"
  printf '// A mesh (docs/sources/facts.md §5.2, §6, A1; mesh.md). https://example.org/other.md is not ours.\n' >"$tree/src/base/mesh.h"
  printf '# Guide\n## How a re-run `works`, mostly\n[mesh](design/mesh.md), [facts](sources/facts.md#52-five-two), [here](#how-a-re-run-works-mostly),\n' \
    >"$tree/docs/guide.md"
  printf '[web](https://example.org/x), `src/base/mesh`, `base/more.h`, `src/base/{mesh,more}.h`, `mesh.h`, `src/base/<name>.h`,\n' \
    >>"$tree/docs/guide.md"
  printf '`src/base/KEY.cpp`, `tests/base/m*_test.cpp`, `other/thing.h`, `https://example.org/src/base/no.h`, `[a](b)`.\n' \
    >>"$tree/docs/guide.md"
  mkdir -p "$tree/tests/base" && : >"$tree/tests/base/mesh_test.cpp"
  printf 'Once there was `src/base/gone.h`, and `train.gone`.\n' >"$tree/docs/log.md"
  printf '# Recipe\n- `model.chunk`: gone.\n\n| key | default |\n|---|---|\n| `train.steps` | 1 |\n| `model.router_scale` | 1 |\n' \
    >"$tree/docs/reference/recipe.md"
  printf '`train.steps=3`, `model.chunk`, `model.router_…`, `[train]`, `data.toml`, run train.py.\n' >>"$tree/docs/guide.md"
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

# expect_page TEXT LINE: the clean tree with LINE added to a page fails, and the report holds the page and TEXT.
expect_page() {
  plant_clean_tree
  printf '\n%s\n' "$2" >>"$tree/docs/design/mesh.md"
  expect_report check-pointers "$2" "docs/design/mesh.md:4: $1"
}

expect_page "the link ../lost.txt leads to no file" 'See [this](../lost.txt).'
expect_page "the link ../../src/lost/ leads to no file" 'See [a folder](../../src/lost/).'
expect_page "docs/guide.md has no heading #how-it-fails" 'See [this](../guide.md#how-it-fails).'
expect_page "docs/design/mesh.md has no heading #lost" 'See [below](#lost).'
expect_page "there is no file src/base/lost.h" 'Code: `src/base/lost.h`.'
expect_page "there is no file src/base/lost" 'Code: src/base/lost, in two files.'
expect_page "there is no file base/lost.cpp" 'Code: `base/lost.cpp`.'
expect_page "there is no file src/base/mesh.cpp" 'Code: `src/base/mesh.{h,cpp}`.'
expect_page "there is no file src/base/lost" 'Code: `src/base/{mesh,lost}`.'
expect_page "there is no file tests/base/x*_test.cpp" 'Tests: `tests/base/x*_test.cpp`.'
expect_page "there is no file lost.h" 'Code: `lost.h`.'
expect_page "there is no option train.step" 'Set `train.step=3`.'
expect_page "there is no option optim.lost" 'Set `optim.lost`.'
expect_page "there is no option model.router_lost" 'Set model.router_lost to 1.'

plant_clean_tree
printf '# Log\n[gone](lost.txt)\n' >"$tree/docs/log.md"
expect_report check-pointers "a link of the log" "docs/log.md:2: the link lost.txt leads to no file"
((failures == 0))
