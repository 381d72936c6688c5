#!/usr/bin/env bash
# scripts/mutate-alone on a program of two files: what is noticed, what survives, what it leaves to scripts/mutate, and that a repeated
# call goes on.
#   mutate_alone_test.sh SOURCE_ROOT
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{bin,scripts/mutations,src,tests/kernels,bench/results,build/release/tests}
cp "$1"/scripts/{mutate-alone,mutation.py} "$tree/scripts/"
cd "$tree"
printf 'int area(int width, int height) { return width * height; }\n' >src/area.cpp
printf 'int twice(int x);\nint edge(int width, int height) { return twice(width + height); }\n' >src/edge.cpp
printf '#pragma once\ninline int thrice(int x) { return 3 * x; }\n' >src/thrice.h
printf 'int twice(int x) { return 2 * x; }\n' >src/twice.cpp
cat >tests/kernels/area_test.cpp <<'CPP'
#include <cstdio>
int area(int, int);
int edge(int, int);
int main() {
  if (area(2, 3) == 6 && edge(1, 1) > 0) return 0;
  std::puts("[  FAILED  ] Area.OfARectangle");
  return 1;
}
CPP
cat >scripts/mutations/area <<'TXT'
filter: Area*

sum: The area is a sum.
  src/area.cpp: width * height ⇒ width + height

endless: It never returns.
  src/area.cpp: return width * height; ⇒ for (volatile int i = 0;; i = i + 1) {}

unseen: The edge is one longer.
  src/edge.cpp: width + height ⇒ width + height + 1

header: A header is wrong.
  src/thrice.h: 3 * x ⇒ x

broken: It does not compile.
  src/twice.cpp: 2 * x ⇒ 2 * y
TXT
cd build/release
mkdir -p together
printf '#include "area.cpp"\n#include "edge.cpp"\n' >together/shapes.cpp
entry() { printf '{"directory": "%s", "command": "g++ -O0 -I%s/src -o %s -c %s", "file": "%s"}' "$PWD" "$tree" "$2" "$1" "$1"; }
printf '[%s, %s]\n' "$(entry "$PWD/together/shapes.cpp" shapes.o)" "$(entry "$tree/src/twice.cpp" twice.o)" >compile_commands.json
for file in together/shapes.cpp "$tree"/src/twice.cpp "$tree"/tests/kernels/area_test.cpp; do
  g++ -O0 -I"$tree/src" -c "$file" -o "$(basename "$file" .cpp).o"
done
ar rcs shapes.a shapes.o twice.o
cd "$tree"
printf '#!/bin/sh\necho ": && g++ -o tests/kernels_test area_test.o shapes.a"\n' | sed 's/g++ -o tests\/kernels_test area_test.o/g++ area_test.o -o tests\/kernels_test/' >bin/ninja
chmod +x bin/ninja

failures=0
check() {  # check NAME PATTERN   the table must hold a line that matches
  if grep -qE -- "$2" bench/results/mutations.tsv; then echo "ok     $1"; else
    echo "FAILED $1: expected $2 in:" && cat bench/results/mutations.tsv
    failures=$((failures + 1))
  fi
}
status=0
PATH=$tree/bin:$PATH MUTATE_TIMEOUT=5 scripts/mutate-alone >out || status=$?
check noticed $'^area\tsum\tnoticed by Area.OfARectangle$'
check 'runs too long' $'^area\tendless\tnoticed: ran too long$'
check survives $'^area\tunseen\tSURVIVED$'
check header $'^area\theader\twants scripts/mutate$'
check 'does not compile' $'^area\tbroken\tDOES NOT COMPILE: .*y'
[[ $status == 1 ]] || { echo "FAILED status: expected 1, found $status" && failures=$((failures + 1)); }
PATH=$tree/bin:$PATH scripts/mutate-alone >out
[[ ! -s out && $(wc -l <bench/results/mutations.tsv) == 5 ]] || { echo "FAILED a repeated call plants anew: $(cat out bench/results/mutations.tsv)" && failures=$((failures + 1)); }
status=0
scripts/mutate-alone --share 3/2 >out 2>&1 || status=$?
[[ $status == 64 ]] && grep -q 'not a share: 3/2' out || { echo "FAILED share: $status $(cat out)" && failures=$((failures + 1)); }
exit $((failures > 0))
