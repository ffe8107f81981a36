#!/usr/bin/env bash
# Runs a sweep as an array of SLURM jobs, each of which is one shard:
#
#   mirrorball sweep plan sweep.toml -o out
#   sbatch --array=1-100 slurm-array.sh out 100
#
# `out` is on a filesystem that all nodes see. Submit the same array again for what is missing, or
# the failed tasks alone: `sbatch --array=7,31 slurm-array.sh out 100`. The number of shards is the
# same each time. SLURM refuses a task number of MaxArraySize (`scontrol show config`, 1001 by
# default) or more: take fewer shards then, since a shard may have any number of cells.
#SBATCH --job-name=mirrorball
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=1G
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail

folder=${1:?the folder of the sweep}
shards=${2:?the number of shards}
# SLURM signals this shell a minute before the end; the program then writes what is done.
mirrorball sweep run "$folder" --threads "${SLURM_CPUS_PER_TASK:-1}" \
    --shard "$SLURM_ARRAY_TASK_ID/$shards" &
trap 'kill -TERM $!' TERM
status=0
wait $! || status=$?
# A wait that a signal ended is repeated, for the program to finish.
if ((status > 128)); then
    status=0
    wait $! || status=$?
fi
exit "$status"
