#!/usr/bin/env bash
# scripts/check-on-gpu with a GPU and a program that only pretend: every outcome is told, none is passed over. Usage: check_on_gpu_test.sh SOURCE_ROOT
set -euo pipefail
source_root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
mkdir -p "$work/tree/scripts" "$work/tree/build/gpu" "$work/tree/recipes" "$work/tree/bench/peers" "$work/tree/bench/results" "$work/bin"
printf '# a comment\nhybrid-bench 4 x 8192\ttokens/s\t700000\t227533\t2026-11-26\tH100\ntnl-1b 4 x 4096, MFU\t%%\t50\tnot measured\t-\t-\ngpt2-124m 16 x 1024, beside torch.compile\ttimes\t1.0\tnot measured\t-\t-\n' \
  >"$work/tree/bench/results/gpu-figures.tsv"
cp "$source_root"/scripts/{check-on-gpu,common.sh} "$work/tree/scripts"
script=$work/tree/scripts/check-on-gpu
printf '#!/bin/sh\necho "GPU 0: pretended"\n' >"$work/bin/nvidia-smi"
printf '#!/bin/sh\nexit 9\n' >"$work/bin/no-nvidia-smi"
chmod +x "$work"/bin/*

# The pretended program: `train … train.device=D --run FOLDER` writes two steps; the loss on cuda:0 is multiplied by $work/factor; drift: by another one when it runs again.
cat >"$work/tree/build/gpu/longhaul" <<PROGRAM
#!/usr/bin/env bash
factor=1
[[ \$1 == bench ]] && factor=\$(cat "$work/factor")
for argument in "\$@"; do
  [[ \$argument == train.device=cuda* ]] && factor=\$(cat "$work/factor")
done
if [[ \$1 == bench ]]; then
  [[ \$factor == crash && \$* == *mamba2* ]] && { echo 'error: out of memory' >&2; exit 68; }
  echo '{"name": "train", "tokens_per_second": 300000.0, "mfu": 0.25}'
  exit 0
fi
[[ \$factor == refuse ]] && { echo 'error: this LibTorch computes on the CPU alone'; exit 64; }
[[ \$factor == crash ]] && { echo 'error: out of memory'; exit 68; }
if [[ \$factor == drift ]]; then
  factor=1.001
  [[ \$* == *-again* ]] && factor=1.002
fi
run=\${*: -1}
mkdir -p "\$run"
for step in 1 2; do
  echo "{\"event\":\"step\",\"step\":\$step,\"loss\":\$(awk -v f="\$factor" -v s=\$step 'BEGIN { print f * (9 - s) }'),\"tokens\":1}" >>"\$run/events.jsonl"
done
PROGRAM
chmod +x "$work/tree/build/gpu/longhaul"

# check NAME STATUS TEXT ARGUMENTS…: ends with STATUS and says TEXT, on a stream or in the summary.
check() {
  local name=$1 expected=$2 text=$3 output status=0
  shift 3
  rm -rf "$work/out"
  output=$(PATH=$work/bin:$PATH "$script" "$@" 2>&1) || status=$?
  output+=$(cat "$work/out/summary.txt" 2>/dev/null || true)
  if [[ $status == "$expected" && $output == *"$text"* ]]; then
    echo "ok     $name"
  else
    echo "FAILED $name: expected status $expected and \"$text\", got $status: $output"
    failures=$((failures + 1))
  fi
}
check 'an unknown argument' 64 'not understood' --nonsense
check 'an unknown part' 64 'no such part' --only everything
train=(--out "$work/out" --steps 2 --only train)
echo 1.001 >"$work/factor"
check 'equal losses pass' 0 'passed       train      gpt2-124m: 2 steps' "${train[@]}"
check 'the same losses once more' 0 'passed       train      gpt2-124m: the same losses once more' "${train[@]}"
echo drift >"$work/factor"
check 'other bits once more fail' 1 'gpt2-124m: another run on the GPU gives other losses: < 1 8.' "${train[@]}"
echo 1.1 >"$work/factor"
check 'other losses fail' 1 'losses on the GPU differ' "${train[@]}"
echo refuse >"$work/factor"
check 'a LibTorch without CUDA is told' 1 "not possible train      first-run: this program's LibTorch has no CUDA" "${train[@]}"
echo crash >"$work/factor"
check 'a crash fails' 1 'first-run on cuda:0 ended with status 68' "${train[@]}"
echo 1 >"$work/factor"
check 'fewer steps than asked for fail' 1 'losses on the GPU differ' --out "$work/out" --steps 3 --only train
check 'benches pass' 0 'passed       bench      8 presets' --out "$work/out" --only bench
check 'the closing table has a figure of this run beside the last' 0 'hybrid-bench 4 x 8192                          tokens/s      300000.0     700000         227533  2026-11-26 H100' \
  --out "$work/out" --only bench
check 'the share of the measured peak' 0 'tnl-1b 4 x 4096, MFU                           %                 25.0         50   not measured' --out "$work/out" --only bench
python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))) == 8' "$work/out/bench.json" || { echo 'FAILED bench.json'; failures=$((failures + 1)); }
echo crash >"$work/factor"
grep -q '^hybrid-bench 4 x 8192$' "$work/out/operators.txt" || { echo 'FAILED operators.txt'; failures=$((failures + 1)); }
check 'a bench that crashes fails by itself' 1 'failed       bench      mamba2-bench 4 x 8192 ended with status 68: error: out of memory' --out "$work/out" --only bench
echo 1 >"$work/factor"
cat >"$work/bin/peer-python" <<PEER
#!/bin/sh
case "\$*" in
  -c*) cat "$work/peer" >&2; test ! -s "$work/peer" ;;
  *gpu_kernels*) echo '{"name": "matmul", "milliseconds": 1.5}'; echo '{"name": "lightning", "reason": "ModuleNotFoundError"}' ;;
  *) echo '{"tokens_per_second": 200000.0}' ;;
esac
PEER
chmod +x "$work/bin/peer-python"
export LONGHAUL_PEER_PYTHON=$work/bin/peer-python
echo 'ModuleNotFoundError: torch' >"$work/peer"
check 'a Python without torch is told' 1 'not possible peers' --out "$work/out" --only peers
: >"$work/peer"
check 'peers are set beside the benches' 0 'gpt2-124m 16 x 1024, beside torch.compile      times             1.50        1.0   not measured' \
  --out "$work/out" --only bench --only peers
check 'what a peer refuses is counted' 0 '1 kernels timed, 1 refused' --out "$work/out" --only peers
check 'an nccl-check that cannot be built' 1 'failed       nccl       nccl-check could not be built' --out "$work/out" --only nccl
check 'kernels that cannot be built' 1 'gpu-check could not be built' --out "$work/out" --only kernels

# Pretended builds, and a gpu-check of three groups, the second of which does what $work/second says.
for tool in cmake ninja; do printf '#!/bin/sh\nexit 0\n' >"$work/bin/$tool"; done
cat >"$work/tree/build/gpu/gpu-check" <<PROGRAM
#!/usr/bin/env bash
[[ \$1 == --help ]] && { echo 'groups: first second third'; exit 0; }
echo "gpu-check: checking \$2" >&2
echo "table of \$2"
second=\$(cat "$work/second")
[[ \$2 == second && \$second == crash ]] && { echo 'gpu-check: an illegal memory access' >&2; exit 71; }
[[ \$2 == second && \$second == hang ]] && sleep 60
[[ \$2 == second && \$second == slow && \$5 == --no-checks ]] && sleep 60
[[ \$5 == --no-checks ]] && { echo "{\"timed\": \"\$2\"}" >"\$4"; exit 0; }
passed=true
[[ \$2 == second && \$second == fail ]] && passed=false
echo "{\"op\": \"\$2\", \"passed\": \$passed, \"rms\": 0}" >"\$4"
[[ \$passed == true ]]
PROGRAM
chmod +x "$work"/bin/* "$work/tree/build/gpu/gpu-check"
export CHECK_LIMIT_S=2
kernels=(--out "$work/out" --only kernels)
echo pass >"$work/second"
check 'all groups pass' 0 'passed       kernels    3 checks' "${kernels[@]}"
echo fail >"$work/second"
check 'a check fails' 1 'failed       kernels    second: 1 checks failed' "${kernels[@]}"
echo hang >"$work/second"
check 'a kernel hangs' 1 'second, checks: it did not end within 2 s' "${kernels[@]}"
echo slow >"$work/second"
check 'a timing that does not end costs no check' 1 'second, timing: it did not end within 2 s' "${kernels[@]}"
grep -q '"op": "second", "passed": true' "$work/out/gpu-check.json" || { echo 'FAILED the checks before a slow timing'; failures=$((failures + 1)); }
echo crash >"$work/second"
check 'a kernel crashes' 1 'second, checks: ended with status 71: gpu-check: an illegal memory access' "${kernels[@]}"
after=$(tr -d ' \n' <"$work/out/gpu-check.json")
[[ $after == '[{"op":"first","passed":true,"rms":0},{"timed":"first"},{"op":"third","passed":true,"rms":0},{"timed":"third"}]' ]] && grep -q 'table of third' "$work/out/gpu-check.txt" ||
  { echo "FAILED the groups around a crash: $after"; failures=$((failures + 1)); }
(($(find "$work/out" -type f | wc -l) <= 8)) || { echo "FAILED more than eight files"; failures=$((failures + 1)); }
mv "$work/bin/no-nvidia-smi" "$work/bin/nvidia-smi"
check 'no GPU' 71 'no NVIDIA GPU is visible' --out "$work/out"
exit $((failures > 0))
