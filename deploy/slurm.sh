#!/usr/bin/env bash
# A batch job for Slurm: as many ranks as tasks. Before its time is over, and when it is preempted, the run saves and the job goes to the queue
# again under the same number, where the same command goes on from what was saved.
#
#   sbatch --nodes=2 --ntasks-per-node=4 --cpus-per-task=8 deploy/slurm.sh RECIPE [key=value …] --run /shared/runs/NAME
#
# The run folder must be one that all nodes see. LONGHAUL names the program (default: longhaul).
#SBATCH --job-name=longhaul
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=longhaul-%j.log
#SBATCH --signal=B:USR1@300
set -uo pipefail

# To all ranks, which stop at one step, save and end with 74. Not to srun: it would kill them.
ask_to_save() { scancel --signal=TERM "$SLURM_JOB_ID"; }

# A rank that fails is not the other ranks' end at once: they say what they waited for, and leave by themselves within seconds.
srun --kill-on-bad-exit=0 "${LONGHAUL:-longhaul}" train "$@" "train.threads=${SLURM_CPUS_PER_TASK:-1}" &
ranks=$!
trap ask_to_save USR1 TERM

# Each signal ends a `wait` early.
status=0
while kill -0 "$ranks" 2>/dev/null; do
  wait "$ranks"
  status=$?
done
if ((status == 74)); then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$status"
