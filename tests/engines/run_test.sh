#!/usr/bin/env bash
# One recipe on 4 ranks that a real engine starts, beside the run of one process: the same losses, step by step.
#   run_test.sh launch|torchrun|torchrun_restart|srun|sbatch|lost_node PROGRAM [PYTHON-OF-PEERS FOLDER-WITH-TORCH]
# Then `evaluate` of that process's run on as many ranks, beside one process: the same figures to the bit.
# In fp64, so sums that are taken in another order show at 1e-15, and anything that is lost or counted twice far above the bound of 1e-12.
# Exit status 77: the engine cannot be had here, standard error says why.
set -euo pipefail
engine=$1 program=$2 python=${3-} torch=${4-}
source_root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd -P)
source "$source_root/tests/engines/common.sh"
if [[ $engine == sbatch || $engine == lost_node || $engine == torchrun_restart ]]; then steps=40; fi
make_recipe
ranks=("$recipe" "data.source=$work/text" parallel.tp=2 parallel.cp=2)

torchrun() { PYTHONPATH=$torch "$python" -m torch.distributed.run --no-python "$@"; }

# torch's agent starts all ranks again when one is killed, and they go on from what was saved.
train_with_a_killed_rank() {
  torchrun --nproc-per-node 4 --max-restarts 1 -- "$program" train "${ranks[@]}" --run "$work/ranks" &
  local agent=$! turn rank
  for ((turn = 0; turn < 1200; ++turn)); do
    if compgen -G "$work/ranks/checkpoints/step-*" >/dev/null; then break; fi
    sleep 0.1
  done
  for rank in $(pgrep -f -- "--run $work/ranks"); do
    if tr "\0" "\n" 2>/dev/null <"/proc/$rank/environ" | grep -qx RANK=2; then kill -KILL "$rank"; fi
  done
  wait "$agent"
}

train_on_engine() {
  case $engine in
    launch) "$program" launch -n 4 --threads-per-rank 1 "${ranks[@]}" --run "$work/ranks" ;;
    # Without `--` torchrun takes --run for a beginning of its own --run-path.
    torchrun) torchrun --nproc-per-node 4 -- "$program" train "${ranks[@]}" --run "$work/ranks" ;;
    torchrun_restart) train_with_a_killed_rank ;;
    srun) "$source_root/scripts/single-node-slurm" srun -n 4 "$program" train "${ranks[@]}" --run "$work/ranks" ;;
    sbatch) "$source_root/scripts/single-node-slurm" "$source_root/tests/engines/batch_job" "$program" "${ranks[@]}" --run "$work/ranks" ;;
    lost_node) LONGHAUL_SLURM_NODES=3 "$source_root/scripts/single-node-slurm" "$source_root/tests/engines/lost_node" "$program" "${ranks[@]}" --run "$work/ranks" ;;
    *) echo "no such engine: $engine"; exit 1 ;;
  esac
}

# `launch` only trains; processes of one machine are evaluate's own. On engines a rank may be told something else: with ODD=1 each has another seed.
evaluate_on_engine() {
  local words=("$program" evaluate "$work/one" "$@") own='exec "$@" ${ODD:+--seed "${SLURM_PROCID:-${RANK-}}"}'
  case $engine in
    launch) "${words[@]}" --ranks 4 ;;
    torchrun) torchrun --nproc-per-node 4 -- bash -c "$own" rank "${words[@]}" ;;
    srun) "$source_root/scripts/single-node-slurm" srun -n 4 bash -c "$own" rank "${words[@]}" ;;
  esac
}

require_same_figures() {  # require_same_figures WORDS: of an evaluation; fp32, whose losses do not depend on the number of threads
  "$program" evaluate "$work/one" "$@" --dtype fp32 --json >"$work/figures.one" 2>"$work/figures.log" &&
    evaluate_on_engine "$@" --dtype fp32 --json >"$work/figures.ranks" 2>"$work/figures.log" || { cat "$work/figures.log"; exit 1; }
  grep -q '^{' "$work/figures.one" && cmp "$work/figures.one" "$work/figures.ranks" ||
    { cat "$work/figures.one" "$work/figures.ranks"; echo "evaluate $1 $2: the figures of ranks are not those of one process"; exit 1; }
}

# That there are four indeed, and what they say when they were not told the same.
require_that_ranks_meet() {
  local status=0 said='rank 1 has another evaluation than rank 0; so have 2 more' expected=64
  if [[ $engine == launch ]]; then said='evaluate: rank [0-3] of 4 ended with 69' expected=69; fi
  ODD=1 GLOO_SOCKET_IFNAME=$([[ $engine == launch ]] && echo nowhere) evaluate_on_engine --task mqar --lengths 64 --pairs 4 \
    >"$work/odd.log" 2>&1 || status=$?
  if ! grep -q "$said" "$work/odd.log"; then cat "$work/odd.log"; echo "evaluate does not say: $said"; exit 1; fi
  # torchrun has one code for all failures.
  [[ $engine == torchrun ]] || ((status == expected)) || { cat "$work/odd.log"; echo "evaluate ended with $status, not $expected"; exit 1; }
}

"$program" train "$recipe" "data.source=$work/text" --run "$work/one" >"$work/one.log" 2>&1 || { cat "$work/one.log"; exit 1; }
status=0
train_on_engine >"$work/ranks.log" 2>&1 || status=$?
if ((status == 77)); then cat "$work/ranks.log" >&2; exit 77; fi
((status == 0)) || { cat "$work/ranks.log"; echo "$engine ended with $status"; exit 1; }
require_same_losses "$work/one" "$work/ranks"
grep -q '"world_size":4' "$work/ranks/events.jsonl" || { echo 'these were not 4 ranks'; exit 1; }
if [[ $engine == launch || $engine == torchrun || $engine == srun ]]; then
  require_same_figures --data "$work/text"
  require_same_figures --task needle --lengths 300 --samples 2
  require_same_figures --task mqar --lengths 64 --pairs 4
  require_that_ranks_meet
fi
if [[ $engine == torchrun || $engine == srun ]]; then
  grep -q '   # on every rank, by ' "$work/ranks.log" || { echo 'what to type next leaves out who starts the ranks'; exit 1; }
fi
for rank in 1 2 3; do
  grep -q "\"rank\":$rank" "$work/ranks/events/rank-$rank.jsonl" || { echo "rank $rank wrote no events"; exit 1; }
done
if [[ $engine == torchrun_restart ]]; then
  grep -q '"event":"resume"' "$work/ranks/events.jsonl" || { cat "$work/ranks.log"; echo 'no rank was started again'; exit 1; }
  # What a rank says of its end stands in the agent's own report (TORCHELASTIC_ERROR_FILE), and the rank that failed by itself is its cause.
  status=0
  torchrun --nproc-per-node 2 -- "$program" train "$recipe" "data.source=$work/nowhere" --run "$work/failing" >"$work/failing.log" 2>&1 || status=$?
  ((status != 0)) || { echo 'a corpus that is not there was no error'; exit 1; }
  sed -n '/Root Cause/,$p' "$work/failing.log" >"$work/cause.log"
  grep -q 'exitcode *: 65' "$work/cause.log" && grep -q 'cannot read the corpus' "$work/cause.log" || { cat "$work/failing.log"; echo 'torchrun does not name the cause'; exit 1; }
fi
