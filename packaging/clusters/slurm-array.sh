#!/usr/bin/env bash
# Runs a sweep as an array of SLURM jobs, each of which is one shard:
#
#   mirrorball sweep plan sweep.toml -o out
#   sbatch --array=0-99 slurm-array.sh out
#
# `out` is on a filesystem that all nodes see. Submit the same array again for what is missing.
#SBATCH --job-name=mirrorball
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=1G
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail

folder=${1:?the folder of the sweep}
# SLURM signals this shell a minute before the end; the program then writes what is done.
mirrorball sweep run "$folder" --threads "${SLURM_CPUS_PER_TASK:-1}" \
    --shard "$((SLURM_ARRAY_TASK_ID + 1))/$SLURM_ARRAY_TASK_COUNT" &
trap 'kill -TERM $!' TERM
status=0
wait $! || status=$?
# A wait that a signal ended is repeated, for the program to finish.
if ((status > 128)); then
    status=0
    wait $! || status=$?
fi
exit "$status"
