# Shared by ./longhaul and scripts/: where things are and how they speak. Sourced, never run.
# Everything said goes to standard error: standard output belongs to the program (--json).

root=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd -P)
build_dir=$root/build/release
cache=${LONGHAUL_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp/longhaul-$UID}/.cache}/longhaul}
torch_version=2.13.0+cpu

say() { printf 'longhaul: %s\n' "$*" >&2; }

# fail CODE LINE…   the first line says what is wrong, the others what to do; codes as in docs/reference/exit-codes.md.
fail() {
  local code=$1
  shift
  say "error: $1"
  shift
  (($#)) && printf '  %s\n' "$@" >&2
  exit "$code"
}

make_folder() { mkdir -p "$1" 2>/dev/null || fail 73 "cannot create $1" "give LONGHAUL_CACHE a folder that can be written to"; }

# hold_lock FILE   until this shell ends, or closes descriptor 9; a second caller waits and says so.
hold_lock() {
  make_folder "${1%/*}"
  exec 9>"$1" || fail 73 "cannot write $1"
  flock -n 9 || { say "waiting for another ./longhaul that is at work here"; flock 9; }
}

# Packages unpacked without root (scripts/install-packages) live here, one folder per release of the system.
unpacked_folder() {
  local ID='' VERSION_ID=''
  [[ -r /etc/os-release ]] && . /etc/os-release
  unpacked=$cache/packages/$ID-$VERSION_ID-${HOSTTYPE:-$(uname -m)}
}

use_unpacked() {
  unpacked_folder
  [[ -f $unpacked/names ]] || return 0
  local libraries=$unpacked/usr/lib/${HOSTTYPE}-linux-gnu
  export PATH=$PATH:$unpacked/usr/bin
  export CMAKE_PREFIX_PATH=$unpacked/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
  export PKG_CONFIG_PATH=$libraries/pkgconfig:$unpacked/usr/share/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$libraries
}
