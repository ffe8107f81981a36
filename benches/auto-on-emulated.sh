#!/usr/bin/env bash
# Six arrays on the real clock: emulated, under real fio, with `mirrorball/auto` and the three best
# of its rivals in the judged sample, each pairing in simulation too.
#
#   benches/auto-on-emulated.sh [SECONDS]      each run takes so long; 60 if not given
#
# With 60 it takes 50 minutes.
#
# fio reads through its nbd engine. Runs are interleaved there and back (A B C D D C B A), so that
# drift hits all alike; a figure is the mean of both. What this machine adds to each request is in
# all figures alike, so the order is what to compare, and on SSDs it flattens differences.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${1:-60}

need fio:fio python3:python3
build

policies=(mirrorball/auto research/sed research/c3 dm/historical-service-time)
# ARRAY RW SIZE DEPTH, and where in the volume the simulation begins: behind what is `used`.
cells=(
    "two-hdd-raid1 randread 4k 16"
    "hdd-ssd-raid1 randread 4k 16"
    "$root/league/arrays/unequal-ssd.toml randread 4k 4"
    "$root/league/arrays/nvme-sata.toml randread 16k 4"
    "$root/league/arrays/raid10-eight.toml read 128k 4"
    "$root/league/arrays/slowing-hdd.toml randread 4k 16"
)

job() {
    local file=$work/job.fio
    printf '%s\n' "[cell]" "rw=$1" "bs=$2" "iodepth=$3" "ioengine=$4" "direct=1" \
        norandommap randrepeat=0 time_based "runtime=$seconds" "ramp_time=2" \
        "${@:5}" >"$file"
    echo "$file"
}

# IOPS of one policy on one emulated array under fio.
emulated() {
    local array=$1 policy=$2 socket=$work/socket file pid
    "$MIRRORBALL" emulate "$array" --backing none --policy "$policy" --export "nbd:unix:$socket" \
        >"$work/server.log" 2>&1 &
    pid=$!
    for _ in $(seq 100); do [[ -S $socket ]] && break || sleep 0.1; done
    file=$(job "$3" "$4" "$5" nbd "uri=nbd+unix:///?socket=$socket" "offset=$6")
    fio --output-format=json "$file" | python3 -c '
import json, sys
text = sys.stdin.read()
print(json.loads(text[text.index("{"):])["jobs"][0]["read"]["iops"])'
    kill "$pid"
    wait "$pid" || true
}

# IOPS of each policy in simulation, one on a line.
simulated() {
    local file
    file=$(job "$2" "$3" "$4" libaio)
    "$MIRRORBALL" compare "$1" "$file" --policy "$(IFS=,; echo "${policies[*]}")" --format csv \
        --repeats 3 --duration "${seconds}s" --output "$work/simulated-$RANDOM" \
        2>/dev/null >"$work/cells.csv"
    python3 - "$work/cells.csv" "${policies[@]}" <<'PYTHON'
import csv
import sys
rows = list(csv.DictReader(open(sys.argv[1])))
for policy in sys.argv[2:]:
    iops = [float(row["iops"]) for row in rows if row["policy"] == policy and row["iops"]]
    print(sum(iops) / len(iops))
PYTHON
}

printf '%-18s %-14s' array job
printf ' %22s' "${policies[@]}"
printf '\n%33s' ''
for _ in "${policies[@]}"; do printf ' %11s %10s' simulated emulated; done
printf '\n'
for cell in "${cells[@]}"; do
    read -r array rw size depth begin <<<"$cell"
    declare -A sum=()
    for turn in 0 1 2 3 3 2 1 0; do
        iops=$(emulated "$array" "${policies[turn]}" "$rw" "$size" "$depth" \
            "${begin:-0%}")
        sum[$turn]=$(python3 -c "print(${sum[$turn]:-0} + $iops)")
    done
    mapfile -t model < <(simulated "$array" "$rw" "$size" "$depth")
    name=${array##*/}
    printf '%-18s %-14s' "${name%.toml}" "$rw-$size-$depth"
    for turn in "${!policies[@]}"; do
        printf ' %11.0f %10.0f' "${model[turn]}" "$(python3 -c "print(${sum[$turn]} / 2)")"
    done
    printf '\n'
done
