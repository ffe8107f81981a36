#!/usr/bin/env bash
# Runs `mirrorball torture` for long, in several processes, without and with checksums in turn.
#
#   cargo build --release && benches/long-torture.sh [OPERATIONS] [PROCESSES] [FIRST_SEED]
#
# Ten million operations are 166,667 histories, each with a seed of its own. Prints a table in
# Markdown as parts of 2,000 histories end, so that an interrupted run says how far it came. A
# history that breaks a rule is printed, the part goes on behind it, and the exit code is 1. PART is
# the number of histories in a part, MIRRORBALL the program.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export mirrorball=${MIRRORBALL:-$root/target/release/mirrorball}
operations=${1:-10000000} processes=${2:-2} first=${3:-1000000}
export part=${PART:-2000} history=60

# Runs the part with this number; the odd ones have checksums.
run_part() {
    local number=$1 first=$2 option=none begin output seed end failed=0
    local -a options=()
    seed=$((first + number * part))
    end=$((seed + part)) begin=$(date +%s)
    if ((number % 2)); then
        option=--checksums
        options=(--checksums)
    fi
    while ((seed < end)); do
        if output=$("$mirrorball" torture --seed "$seed" --operations $(((end - seed) * history)) \
            "${options[@]}" 2>/dev/null); then
            break
        fi
        echo "$output"
        failed=$((failed + 1))
        [[ $output =~ 'the history of seed '([0-9]+) ]] || return 255
        seed=$((BASH_REMATCH[1] + 1))
    done
    seed=$((end - part))
    echo "| $seed | $option | $((part * history)) | $failed | $(($(date +%s) - begin)) s |"
    ((failed == 0))
}
export -f run_part

parts=$(((operations + part * history - 1) / (part * history)))
echo "| first seed | option | operations | rules broken | time |"
echo "|---|---|---|---|---|"
seq 0 $((parts - 1)) | xargs -P "$processes" -I{} bash -c "run_part {} $first"
