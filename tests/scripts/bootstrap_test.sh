#!/usr/bin/env bash
# scripts/fetch-torch and scripts/install-packages, with a python3 that only pretends. Usage: bootstrap_test.sh SOURCE_ROOT
set -euo pipefail
source_root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
unset LONGHAUL_TORCH
export LONGHAUL_CACHE=$work/cache HOME=$work PATH=$work/bin:$PATH

make_libtorch() {  # make_libtorch FOLDER VERSION
  mkdir -p "$1/lib" "$1/include/ATen"
  touch "$1/lib/libtorch_cpu.so" "$1/include/ATen/ATen.h"
  echo "__version__ = '$2'" >"$1/version.py"
}

# What the pretended python3 does: find_spec answers $work/seen, pip "downloads" a wheel, zipfile unpacks a LibTorch.
mkdir -p "$work/bin"
cat >"$work/bin/python3" <<EOF
#!/usr/bin/env bash
case "\$1 \$2" in
  -c\ *) cat "$work/seen" 2>/dev/null || echo ;;
  '-m pip')
    echo "\$*" >>"$work/pip-calls"
    [[ \$3 == --version ]] && exit 0
    [[ -f $work/offline ]] && { echo 'ERROR: no index answers' >&2; exit 1; }
    while [[ \$1 != --dest ]]; do shift; done
    mkdir -p "\$2"
    echo tampered >"\$2/\$(cat "$work/wheel-name")" ;;
  '-m zipfile')
    mkdir -p "\$5/torch/lib" "\$5/torch/include/ATen"
    touch "\$5/torch/lib/libtorch_cpu.so" "\$5/torch/include/ATen/ATen.h" ;;
esac
EOF
chmod +x "$work/bin/python3"

# check NAME STATUS TEXT COMMAND…: the command ends with STATUS and says TEXT (on either stream).
check() {
  local name=$1 expected=$2 text=$3 output status=0
  shift 3
  output=$("$@" 2>&1) || status=$?
  if [[ $status == "$expected" && $output == *"$text"* ]]; then
    echo "ok     $name"
  else
    echo "FAILED $name: expected status $expected and \"$text\", got $status: $output"
    failures=$((failures + 1))
  fi
}
fetch=$source_root/scripts/fetch-torch
install=$source_root/scripts/install-packages

make_libtorch "$work/mine" 2.13.0+cpu
check 'LONGHAUL_TORCH is used' 0 "$work/mine" env LONGHAUL_TORCH="$work/mine" "$fetch"
check 'LONGHAUL_TORCH that is no LibTorch' 64 'is not a LibTorch' env LONGHAUL_TORCH="$work" "$fetch"

make_libtorch "$work/site/torch" 2.11.0+cu128
echo "$work/site/torch" >"$work/seen"
check 'torch of python3 is used' 0 "$work/site/torch" "$fetch"

touch "$work/offline"
make_libtorch "$work/site/torch" 2.4.1
check 'old torch of python3 is passed over' 69 'passed over' "$fetch"
rm "$work/seen"
check 'no index answers' 69 'could not be downloaded' "$fetch"
check 'PyTorch index was the last resort' 0 'index-url https://download.pytorch.org/whl/cpu' tail -n 1 "$work/pip-calls"
rm "$work/offline"

echo torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl >"$work/wheel-name"
check 'wheel with another hash' 65 'not the published file' "$fetch"
check 'nothing of it stays in the cache' 0 '' bash -c "! compgen -G '$LONGHAUL_CACHE/torch-*'"
echo torch-2.13.0+cpu-cp399-cp399-linux_x86_64.whl >"$work/wheel-name"
check 'wheel that is not listed' 0 'is not in scripts/torch-wheels.sha256' "$fetch"
check 'it lies in the cache' 0 '' test -f "$LONGHAUL_CACHE/torch-2.13.0+cpu/torch/lib/libtorch_cpu.so"
touch "$work/offline"
check 'the cache is used from then on' 0 "$LONGHAUL_CACHE/torch-2.13.0+cpu/torch" "$fetch"

cat >"$work/list" <<'EOF'
# a comment
bash                  command:bash             required
no-such-compiler      command:no-such-compiler system
no-such-library-dev   dpkg                     required
no-such-helper        command:no-such-helper   optional
EOF
check 'what is missing is listed' 0 $'no-such-compiler\nno-such-helper' "$install" --list "$work/list"
printf '#!/bin/sh\nexit 100\n' >"$work/bin/apt-get"
chmod +x "$work/bin/apt-get"
check 'apt that fails: list and command' 64 'apt-get install -y' "$install" "$work/list"
echo 'no-such-helper command:no-such-helper optional' >"$work/list"
if ((EUID == 0)); then
  check 'an optional package may be missing' 0 'going on without: no-such-helper' "$install" "$work/list"
fi
echo 'bash command:bash required' >"$work/list"
output=$("$install" "$work/list" 2>&1)
check 'silent when nothing is to do' 0 '' test -z "$output"

# ./longhaul, before a program and a script that only tell what they were given.
tree=$work/tree
mkdir -p "$tree/scripts" "$tree/build/release"
cp "$source_root/longhaul" "$tree/"
cat >"$tree/scripts/build" <<'END'
#!/usr/bin/env bash
open=$(for stream in 0 1 2; do readlink "/proc/$$/fd/$stream" || echo closed; done)
echo "$open" >"${BASH_SOURCE[0]%/*}/../streams"
END
chmod +x "$tree/scripts/build"
ln -s "$(type -P true)" "$tree/build/release/longhaul"
streams() { paste -sd ' ' "$tree/streams"; }
# A standard stream is never a file that was opened since.
"$tree/longhaul" train <&- >&- 2>&-
check './longhaul with closed streams' 0 '/dev/null /dev/null /dev/null' streams
"$tree/longhaul" train <&- >/dev/null 2>/dev/zero
check './longhaul without input' 0 '/dev/null /dev/null /dev/zero' streams
"$tree/longhaul" train </dev/zero >/dev/zero 2>&-
check './longhaul without messages' 0 '/dev/zero /dev/zero /dev/null' streams
"$tree/longhaul" train </dev/zero >&- 2>/dev/zero
check './longhaul without output' 0 '/dev/zero /dev/null /dev/zero' streams
ln -sf "$(type -P sh)" "$tree/build/release/longhaul"
check 'the program is called as ./longhaul was' 0 "$tree/longhaul -c" "$tree/longhaul" -c 'tr "\0" " " </proc/$$/cmdline'
exit $((failures > 0))
