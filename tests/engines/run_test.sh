#!/usr/bin/env bash
# One recipe on 4 ranks that a real engine starts, beside the run of one process: the same losses, step by step.
#   run_test.sh launch|torchrun|srun|sbatch|lost_node PROGRAM [PYTHON-OF-PEERS FOLDER-WITH-TORCH]
# In fp64, so sums that are taken in another order show at 1e-15, and anything that is lost or counted twice far above the bound of 1e-12.
# Exit status 77: the engine cannot be had here, standard error says why.
set -euo pipefail
engine=$1 program=$2 python=${3-} torch=${4-}
source_root=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd -P)
source "$source_root/tests/engines/common.sh"
if [[ $engine == sbatch || $engine == lost_node ]]; then steps=40; fi
make_recipe
ranks=("$recipe" "data.source=$work/text" parallel.tp=2 parallel.cp=2)

train_on_engine() {
  case $engine in
    launch) "$program" launch -n 4 --threads-per-rank 1 "${ranks[@]}" --run "$work/ranks" ;;
    # Without `--` torchrun takes --run for a beginning of its own --run-path.
    torchrun) PYTHONPATH=$torch "$python" -m torch.distributed.run --no-python --nproc-per-node 4 -- "$program" train "${ranks[@]}" --run "$work/ranks" ;;
    srun) "$source_root/scripts/single-node-slurm" srun -n 4 "$program" train "${ranks[@]}" --run "$work/ranks" ;;
    sbatch) "$source_root/scripts/single-node-slurm" "$source_root/tests/engines/batch_job" "$program" "${ranks[@]}" --run "$work/ranks" ;;
    lost_node) LONGHAUL_SLURM_NODES=3 "$source_root/scripts/single-node-slurm" "$source_root/tests/engines/lost_node" "$program" "${ranks[@]}" --run "$work/ranks" ;;
    *) echo "no such engine: $engine"; exit 1 ;;
  esac
}

"$program" train "$recipe" "data.source=$work/text" --run "$work/one" >"$work/one.log" 2>&1 || { cat "$work/one.log"; exit 1; }
status=0
train_on_engine >"$work/ranks.log" 2>&1 || status=$?
if ((status == 77)); then cat "$work/ranks.log" >&2; exit 77; fi
((status == 0)) || { cat "$work/ranks.log"; echo "$engine ended with $status"; exit 1; }
require_same_losses "$work/one" "$work/ranks"
grep -q '"world_size":4' "$work/ranks/events.jsonl" || { echo 'these were not 4 ranks'; exit 1; }
if [[ $engine == torchrun || $engine == srun ]]; then
  grep -q '   # on every rank, by ' "$work/ranks.log" || { echo 'what to type next leaves out who starts the ranks'; exit 1; }
fi
for rank in 1 2 3; do
  grep -q "\"rank\":$rank" "$work/ranks/events/rank-$rank.jsonl" || { echo "rank $rank wrote no events"; exit 1; }
done
