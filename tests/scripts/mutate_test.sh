#!/usr/bin/env bash
# scripts/mutate in a small tree with a pretended compiler: which mistakes can be planted, which are noticed, which --changed takes.
#   mutate_test.sh SOURCE_ROOT
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0
mkdir -p "$tree"/{bin,scripts/mutations,src,tests/kernels,tests/shapes}
cp "$1"/scripts/{mutate,mutation.py,common.sh} "$tree/scripts/"
cd "$tree"
printf 'build/\nbin/\n' >.gitignore
printf 'TEST(Area, OfARectangle) {}\nTEST(Edge, OfARectangle) {}\n' >tests/kernels/area_test.cpp
printf 'TEST_P(ShapesOf, Sides) {}\nINSTANTIATE_TEST_SUITE_P(Polygons, ShapesOf, Values(3, 4));\n' >tests/shapes/shapes_test.cpp

# check NAME STATUS TEXT ARGUMENT…   what scripts/mutate ARGUMENT… must answer; TEXT is a regular expression
check() {
  local name=$1 status=$2 text=$3 found=0 output
  shift 3
  output=$(PATH=$tree/bin:$PATH LONGHAUL_TORCH=none scripts/mutate "$@" 2>&1) || found=$?
  if [[ $found == "$status" ]] && grep -qE -- "$text" <<<"$output"; then
    echo "ok     $name"
  else
    echo "FAILED $name: expected $status and \"$text\", found $found: $output"
    failures=$((failures + 1))
  fi
}

# plant CHANGE   a file of mistakes with this one in it
plant() { printf 'filter: Area*\n\nplanted: A mistake.\n  %s\n' "$1" >scripts/mutations/area; }

sources() {
  printf 'int area(int width, int height) {\n  return width * height;\n}\n' >src/area.cpp
  printf 'int edge(int width, int height) {\n  const int sum = width + height;\n  return 2 * sum;\n}\n' >src/edge.cpp
}
sources

plant 'src/area.cpp: width * height ⇒ width + height'
check 'stands once' 0 '^$' --check
printf 'int area(int width,\n         int height) {\n  return width *\n         height; }\n' >src/area.cpp
plant 'src/area.cpp: area(int width, int height) { return width*height ⇒ area(int width, int) { return width'
check 'formatted otherwise' 0 '^$' --check
sources
plant 'src/area.cpp: int width ⇒ const int width'
printf '// int width\n' >>src/area.cpp
check 'stands twice' 1 'mutations/area:3: planted: src/area.cpp .* 2 times: int width$' --check
sources
plant 'src/area.cpp: width - height ⇒ width'
check 'stands nowhere' 1 'src/area.cpp .* 0 times: width - height$' --check
plant 'src/area.cpp: return wid ⇒ return 0 * wid'
check 'part of a word' 1 'src/area.cpp .* 0 times: return wid$' --check
plant 'src/none.cpp: width ⇒ height'
check 'no such file' 1 'there is no src/none.cpp' --check
plant $'src/area.cpp: width * height ⇒ width\n  src/area.cpp: height; ⇒ 1;'
check 'two in one place' 1 'changes overlap in src/area.cpp' --check
plant 'src/area.cpp: width * height = width + height'
check 'no arrow' 1 'mutations/area:4: not understood' --check
plant 'src/area.cpp: width * height ⇒ width*height'
check 'no change' 1 'mutations/area:4: this changes nothing' --check
printf 'planted: A mistake.\n' >scripts/mutations/area
check 'no place' 1 'mutations/area:1: planted changes nothing' --check

# A list whose filter matches no test of its program notices nothing.
filtered() { printf 'program: %s\nfilter: %s\n\nplanted: A mistake.\n  src/area.cpp: width * height ⇒ width\n' "$1" "$2" >scripts/mutations/area; }
filtered kernels_test 'Volume*'
check 'no test of that name' 1 'mutations/area: no test of kernels_test matches Volume' --check
filtered shapes_test 'Area*'
check 'the test of another program' 1 'no test of shapes_test matches Area' --check
filtered 'kernels_test shapes_test' 'Area*'
check 'one of two programs' 1 'no test of shapes_test matches Area' --check
filtered 'kernels_test shapes_test' 'Volume*:Area.*:Polygons/ShapesOf.Sides/3'
check 'one of three patterns, with a parameter' 0 '^$' --check

# A pretended build, whose test sees what area returns; an #error does not compile.
cat >bin/cmake <<'TOOL'
#!/bin/sh
mkdir -p "$4/tests" && touch "$4/build.ninja" && echo "$4" >>"${0%/*}/configured"
TOOL
cat >bin/ninja <<'TOOL'
#!/usr/bin/env bash
! grep -q '#error' "$2"/../../src/* || exit 1
cat >"$2/tests/kernels_test" <<PROGRAM
#!/usr/bin/env bash
[[ \$(tr -d ' \n' <"$2/../../src/area.cpp") == *'returnwidth*height;'* ]] || { echo '[  FAILED  ] Area.OfARectangle'; exit 1; }
PROGRAM
chmod +x "$2/tests/kernels_test"
TOOL
chmod +x bin/*
cat >scripts/mutations/area <<'MISTAKES'
sum: Edges for the area.
  src/area.cpp: width * height ⇒
    width +
    height

typing: Does not compile.
  src/area.cpp: return width * height; ⇒
    #error "a: b ⇒ c"
MISTAKES
cat >scripts/mutations/edge <<'MISTAKES'
once: Each edge once.
  src/edge.cpp: 2 * sum ⇒ sum

lost: Two changes, which nothing notices.
  src/edge.cpp: const int sum = width + height; ⇒
  src/edge.cpp: return 2 * sum; ⇒ return 2;
MISTAKES
git init -q -b main
git config user.name test
git config user.email test@localhost
git add .
git commit -q -m first
git commit -q --allow-empty -m second

check 'noticed' 0 'area +sum +noticed by Area.OfARectangle' area/sum
check 'does not compile' 1 'area +typing +DOES NOT COMPILE' area/typing
check 'some are noticed' 1 '3 of 4 mistakes were not noticed'
diff -r src build/mutate/tree/src || { echo 'FAILED the copy is not restored'; failures=$((failures + 1)); }
(cd build/mutate/tree && scripts/mutation.py plant edge/lost .)
[[ $(tr -d ' \n' <build/mutate/tree/src/edge.cpp) == 'intedge(intwidth,intheight){return2;}' ]] ||
  { echo "FAILED two changes: $(cat build/mutate/tree/src/edge.cpp)"; failures=$((failures + 1)); }
check 'unknown' 64 'no such mutation: area/none' area/none

check 'nothing changed' 0 'no mistake is known in what changed' --changed
echo '// a comment' >>src/edge.cpp
check 'a changed file' 1 '2 of 2 mistakes were not noticed' --changed
git commit -q -a -m third
check 'on main the last commit' 1 '2 of 2 mistakes' --changed
git checkout -q -b branch
check 'a branch at its beginning' 0 'no mistake is known' --changed
check 'since a commit' 1 '2 of 2 mistakes' --changed main~1
printf '\nnew: The first edge counts twice.\n  src/area.cpp: return width ⇒ return 2 * width\n' >>scripts/mutations/area
check 'a new mistake' 0 'all 1 mistakes were noticed' --changed
check 'an unknown commit' 64 'does not come from nowhere' --changed nowhere
# Where the compiler cache knows the objects of every clone; and it is kept from one start to the next.
[[ $(<bin/configured) == "$tree/build/mutate/tree/build/release" ]] || { echo "FAILED the builds: $(<bin/configured)"; failures=$((failures + 1)); }
exit $((failures > 0))
