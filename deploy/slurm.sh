#!/usr/bin/env bash
# A batch job for Slurm: as many ranks as tasks. Before its time is over, and when it is preempted, the run saves and the job goes to the queue
# again under the same number, where the same command goes on from what was saved. When ranks or a node fail, the ranks start again in the same
# allocation, on nodes that are left: ask for one or two more than the run needs, and say with LONGHAUL_NODES how many it needs.
#
#   sbatch --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 deploy/slurm.sh RECIPE [key=value …] --run /shared/runs/NAME
#   LONGHAUL_NODES=16 sbatch --nodes=18 --ntasks-per-node=8 …        # 16 nodes and two spares
#
# The run folder must be one that all nodes see. LONGHAUL names the program (default: longhaul); LONGHAUL_RESTARTS how often ranks are
# started again before the job ends (10). Hosts in the run's list of blocked ones (longhaul diagnose blocked RUN) are left out.
#SBATCH --job-name=longhaul
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --open-mode=append
#SBATCH --output=longhaul-%j.log
#SBATCH --signal=B:USR1@300
set -uo pipefail

longhaul=${LONGHAUL:-longhaul}
needed=${LONGHAUL_NODES:-$SLURM_JOB_NUM_NODES}
restarts_left=${LONGHAUL_RESTARTS:-10}
run=''
for ((i = 1; i < $#; ++i)); do if [[ ${!i} == --run ]]; then next=$((i + 1)) run=${!next}; fi; done

# To all ranks, which stop at one step, save and end with 74. Not to srun: it would kill them.
asked=0
ask_to_save() { asked=1; scancel --signal=TERM "$SLURM_JOB_ID"; }
trap ask_to_save USR1 TERM

# Nodes of the allocation that no longer answer, and those that the run has blocked; with commas between them.
bad_nodes() {
  {
    sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" --format='%N %t' | awk '$2 !~ /^(alloc|mix|idle|comp)$/ { print $1 }'
    if [[ -n $run && -f $run/control/blocked.json ]]; then "$longhaul" diagnose blocked "$run" --names | tr , '\n'; fi
  } | grep -Fxf <(scontrol show hostnames "$SLURM_JOB_NODELIST") | sort -u | paste -sd,
}
count() { awk -F, '{ print NF }' <<<"$1"; }

# A rank that fails is not the other ranks' end at once: they say what they waited for, and leave by themselves within seconds.
start_ranks() {
  local tasks=$((needed * ${SLURM_NTASKS_PER_NODE:-1}))
  srun --no-kill --kill-on-bad-exit=0 --nodes="$needed" --ntasks="$tasks" ${1:+--exclude="$1"} \
    "$longhaul" train "${arguments[@]}" "train.threads=${SLURM_CPUS_PER_TASK:-1}" &
  local ranks=$!
  status=0
  # Each signal ends a `wait` early.
  while kill -0 "$ranks" 2>/dev/null; do
    wait "$ranks"
    status=$?
  done
}

arguments=("$@")
bad=$(bad_nodes)
while :; do
  if ((SLURM_JOB_NUM_NODES - $(count "$bad") < needed)); then
    echo "slurm.sh: $needed nodes are needed, and of $SLURM_JOB_NUM_NODES these cannot be used: $bad; the job goes to the queue again"
    scontrol requeue "$SLURM_JOB_ID"
    exit 75
  fi
  start_ranks "$bad"
  bad_before=$bad
  bad=$(bad_nodes)
  case $status in
    0) exit 0 ;;
    74) scontrol requeue "$SLURM_JOB_ID"; exit 74 ;;
    # Starting again does not help (docs/reference/exit-codes.md), unless a node went with them: then any code may be its doing.
    64 | 65 | 66 | 76 | 93) if [[ $bad == "$bad_before" ]]; then exit "$status"; fi ;;
  esac
  if ((asked || restarts_left-- <= 0)); then exit "$status"; fi
  echo "slurm.sh: the ranks ended with $status${bad:+; nodes that are not used: $bad}; they start again, $restarts_left times more at most"
done
