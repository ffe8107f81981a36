#!/usr/bin/env bash
# Six arrays on the real clock: emulated, under real fio, with `mirrorball/auto` and the three best
# of its rivals in the judged sample, each pairing in simulation too.
#
#   benches/auto-on-emulated.sh [SECONDS [ARRAY]...]   each run takes so long; 60 if not given
#
# With 60 it takes 50 minutes; ARRAYs choose some, as `two-hdd-raid1`. SSDs are read two at a time,
# in 64 KiB: two CPUs do not serve more in time. As root, first lift the limit of real-time
# priority, or the kernel suspends a server that polls the clock for 50 ms of each second: `sysctl
# kernel.sched_rt_runtime_us=-1`.
#
# fio reads through its nbd engine. Runs are interleaved there and back (A B C D D C B A), so that
# drift hits all alike; a figure is the mean of both. What this machine adds to each request is in
# all figures alike, so the order is what to compare, and on SSDs it flattens differences. The last
# column is the worst p99 of the lateness of any run of the row; `late` after it means that a run
# was beyond the bound of `ctl stats --check`, and that its figures are void.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${1:-60}
wanted=" ${*:2} "

need fio:fio python3:python3
build

policies=(mirrorball/auto research/sed research/c3 dm/historical-service-time)
# array FILE-NAME PROFILE "LINE..."...: each group of lines is a member.
array() {
    local name=$1 profile=$2
    shift 2
    { echo "profile = \"$profile\"" && printf '[[member]]\n%b\n' "$@"; } >"$work/$name.toml"
}
array unequal-ssd raid1 'model = "ssd-sata-consumer"\nsize = "960GB"' \
    'model = "ssd-sata-plp"\nsize = "960GB"'
array nvme-sata raid1 'model = "ssd-sata-plp"\nsize = "960GB"' \
    'model = "nvme-tlc-ent"\nsize = "960GB"'
array raid10-eight raid10 'model = "hdd-7k2-ent"\ncount = 8'
array slowing-hdd raid1 'model = "hdd-7k2-ent"
fault = [{ slow = 4.0, from = "20s", until = "40s" }]' 'model = "hdd-7k2-ent"'

# ARRAY RW SIZE DEPTH, and where in the volume the simulation begins: behind what is `used`.
cells=(
    "two-hdd-raid1 randread 4k 16"
    "hdd-ssd-raid1 randread 64k 2"
    "$work/unequal-ssd.toml randread 64k 2"
    "$work/nvme-sata.toml randread 64k 2"
    "$work/raid10-eight.toml read 128k 4"
    "$work/slowing-hdd.toml randread 4k 16"
)

job() {
    local file=$work/job.fio
    printf '%s\n' "[cell]" "rw=$1" "bs=$2" "iodepth=$3" "ioengine=$4" "direct=1" \
        norandommap randrepeat=0 time_based "runtime=$seconds" "ramp_time=2" \
        "${@:5}" >"$file"
    echo "$file"
}

# IOPS of one policy on one emulated array under fio. The lateness goes to $work/lateness.
emulated() {
    local array=$1 policy=$2 socket=$work/socket file
    "${ahead[@]}" "$MIRRORBALL" emulate "$array" --backing none --policy "$policy" \
        --export "nbd:unix:$socket" --control "$work/control" >"$work/server.log" 2>&1 &
    server=$!
    for _ in $(seq 100); do [[ -S $socket ]] && break || sleep 0.1; done
    file=$(job "$3" "$4" "$5" nbd "uri=nbd+unix:///?socket=$socket" "offset=$6")
    "${ahead[@]}" fio --output-format=json "$file" | python3 -c '
import json, sys
text = sys.stdin.read()
print(json.loads(text[text.index("{"):])["jobs"][0]["read"]["iops"])'
    ask stats >>"$work/lateness"
    stop_server
}

# The worst p99 of lateness in $work/lateness, and whether all were within their bounds.
lateness() {
    python3 - "$work/lateness" <<'PYTHON'
import json
import sys
text, decoder, late, worst = open(sys.argv[1]).read().strip(), json.JSONDecoder(), False, 0
while text:
    answer, end = decoder.raw_decode(text)
    text = text[end:].strip()
    for member in answer["members"]:
        worst = max(worst, member["lateness"]["p99_ns"])
        late = late or not member["lateness"]["within_bound"]
print(f"{worst / 1e3:.0f} us" + (" late" if late else ""))
PYTHON
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
printf ' %14s\n' 'lateness, p99'
for cell in "${cells[@]}"; do
    read -r array rw size depth begin <<<"$cell"
    name=${array##*/}
    if [[ $wanted != "  " && $wanted != *" ${name%.toml} "* ]]; then continue; fi
    declare -A sum=()
    : >"$work/lateness"
    for turn in 0 1 2 3 3 2 1 0; do
        iops=$(emulated "$array" "${policies[turn]}" "$rw" "$size" "$depth" \
            "${begin:-0%}")
        sum[$turn]=$(python3 -c "print(${sum[$turn]:-0} + $iops)")
    done
    mapfile -t model < <(simulated "$array" "$rw" "$size" "$depth")
    printf '%-18s %-14s' "${name%.toml}" "$rw-$size-$depth"
    for turn in "${!policies[@]}"; do
        printf ' %11.0f %10.0f' "${model[turn]}" "$(python3 -c "print(${sum[$turn]} / 2)")"
    done
    printf ' %14s\n' "$(lateness)"
done
