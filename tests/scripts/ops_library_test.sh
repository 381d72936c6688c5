#!/usr/bin/env bash
# The operators' library loads where nothing but LibTorch is: it links c10, torch_cpu, LibTorch's OpenMP and the compiler's own libraries.
#   ops_library_test.sh LIBRARY
set -euo pipefail

needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
others=$(grep -vE '^(libc10|libtorch_cpu|libgomp|libstdc\+\+|libgcc_s|libm|libc|ld-linux)[-.]' <<<"$needed" || true)
[[ -n $needed ]] || { echo "readelf lists no libraries of $1"; exit 1; }
[[ -z $others ]] || { echo "$1 needs more than LibTorch: $others"; exit 1; }
# Symbols that no library of the list has would only be missed when they are called.
missing=$(LD_BIND_NOW=1 ldd -r "$1" 2>&1 | grep -E 'undefined symbol|not found' | grep -v 'Py' || true)
[[ -z $missing ]] || { echo "$missing"; exit 1; }
