#!/usr/bin/env bash
# What was built has what cmake/compiler.cmake asks for: random addresses, tables of the linker that are read-only from the start, no stack that
# runs, and calls that compare lengths and look whether the stack was smashed.
#   hardening_test.sh PROGRAM LIBRARY
set -euo pipefail
failures=0
for file in "$@"; do
  facts=$(readelf -hldW --dyn-syms "$file")
  has() { grep -qE "$1" <<<"$facts" || { echo "$file lacks $2: readelf shows no line like $1"; failures=$((failures + 1)); }; }
  has 'Type: +DYN' 'a position of its own at every start (-pie, -fPIC)'
  has ' GNU_RELRO ' 'tables that become read-only (-z relro)'
  has 'BIND_NOW' 'names that are bound at the start (-z now)'
  has ' GNU_STACK .* RW +0x' 'a stack that does not run (-z noexecstack)'
  has '__stack_chk_fail' 'guards of the stack (-fstack-protector-strong)'
  has '__(memcpy|memset|snprintf|memmove)_chk' 'calls that compare lengths (-D_FORTIFY_SOURCE)'
done
exit $((failures > 0))
