#!/usr/bin/env bash
# Emulated against simulated: the same model and the same job file, by fio and by simulation.
#
#   benches/emulated-against-simulated.sh [SECONDS]      each run takes so long; 60 if not given
#
# For hard disks IOPS must agree within 3 % and the demerit figure stay under 5 %; for the SSD IOPS
# within 10 %. The demerit figure is that of Ruemmler and Wilkes ("An Introduction to Disk Drive
# Modeling", IEEE Computer, March 1994): the root mean square of the horizontal distance between the
# two distributions of latency, here in percent of the simulated mean. fio draws other addresses
# than the simulator, so short runs differ by chance. Lateness is that of the emulation; past its
# bound a run says more about this machine than about the disk: it is refused, and has failed.
#
# What the machine around the disk costs a request, FUSE and fio included, is what each of the reads
# in flight took from one to the next, beyond what the server did from taking it to its end. It is
# given to the simulation as the host's overhead: the two are to agree on the disk, lateness
# included, not on this machine.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${1:-60}

need fio:fio python3:python3
build

cat >"$work/line.py" <<'PYTHON'
"""One line of the table, from fio's report, a simulated cell and the server's statistics."""
import json
import math
import sys

def middle(index):
    """The latency in the middle of a bin: fio's bins, 64 to the octave."""
    if index < 128:
        return index
    shift = index // 64 - 1
    return (1 << (shift + 6)) + ((index % 64) + 0.5) * (1 << shift)

def quantiles(bins, steps=1000):
    """The latencies of `steps` equal parts of a distribution."""
    total, seen, result = sum(count for _, count in bins), 0, []
    for latency, count in sorted(bins):
        seen += count
        while len(result) < steps and (len(result) + 0.5) / steps * total <= seen:
            result.append(latency)
    return result

fio_path, cell_path, stats_path, model, job = sys.argv[1:6]
iops_bound, demerit_bound = (float(text) for text in sys.argv[6:8])
overhead = sys.argv[8]
text = open(fio_path).read()
read = json.loads(text[text.index("{"):])["jobs"][0]["read"]
emulated = [(int(ns), count) for ns, count in read["lat_ns"]["bins"].items()]
cell = json.load(open(cell_path))
section = cell["sections"][0]
latency = section["read"]["latency"]
simulated = [(middle(index), count) for index, count in zip(latency["bins"], latency["counts"])]
lateness = json.load(open(stats_path))["members"][0]["lateness"]
mean = sum(ns * count for ns, count in simulated) / sum(count for _, count in simulated)
pairs = list(zip(quantiles(emulated), quantiles(simulated)))
demerit = 100 * math.sqrt(sum((a - b) ** 2 for a, b in pairs) / len(pairs)) / mean
ours = section["read"]["iops"]
theirs = read["iops"]
difference = 100 * (theirs / ours - 1)
good = abs(difference) <= iops_bound and demerit <= demerit_bound
if not lateness["within_bound"]:
    verdict = "REFUSED: late"
else:
    verdict = "ok" if good else "DIFFERS"
print(f"{model:20} {job:13} {ours:9.1f} {theirs:9.1f} {difference:+6.1f} %  {demerit:5.1f} %  "
      f"{lateness['p50_ns'] / 1e3:6.0f} us {lateness['p99_ns'] / 1e3:6.0f} us  "
      f"{int(overhead) / 1e3:6.0f} us  {verdict}")
sys.exit(0 if verdict == "ok" else 1)
PYTHON

cat >"$work/overhead.py" <<'PYTHON'
"""What each of DEPTH reads in flight took to the next beyond what the emulated disk did, in ns."""
import json
import sys

text = open(sys.argv[1]).read()
read = json.loads(text[text.index("{"):])["jobs"][0]["read"]
member = json.load(open(sys.argv[2]))["members"][0]
turn_ns = 1e9 * int(sys.argv[3]) / read["iops"]
print(max(0, round(turn_ns - member["read_wait"]["mean_ns"])))
PYTHON

# Writes the job file NAME with this number of reads in flight.
job() {
    sed -e "s/^runtime=.*/runtime=$seconds/" -e "s/^iodepth=.*/iodepth=$2/" \
        -e "s/^\[.*\]/[$1]/" "$root/jobs/rand-4k-qd1.fio" >"$work/$1.fio"
    # fio, too, is to count from when a read was meant to be sent.
    { cat "$work/$1.fio"; printf 'clat_percentiles=0\nlat_percentiles=1\n'; } >"$work/real.fio"
}

# The array file of one disk of this model, on a host whose overhead is this number of nanoseconds.
disk() {
    printf 'profile = "single"\n[host]\noverhead = "%sns"\n' "$2"
    printf '[[member]]\nmodel = "%s"\nsize = "64G"\n' "$1"
}

# Serves the array file $1 and runs $work/real.fio over it.
emulate() {
    start_server emulate "$1" --policy first --backing none
    (cd "$work" && "${ahead[@]}" fio --filename="$work/mount/volume" --output-format=json+ \
        --output="$work/fio.json" "$work/real.fio" >"$work/fio.out" 2>&1)
    ask stats >"$work/stats.json"
    stop_server
}

failed=0
overhead_ns=0

# MODEL DEPTH IOPS-BOUND DEMERIT-BOUND
try() {
    local model=$1 name=rand-4k-qd$2
    job "$name" "$2"
    disk "$model" 0 >"$work/one.toml"
    emulate "$work/one.toml"
    # Of the reads in flight when its time is over fio counts none: with many, each of many
    # milliseconds, that is too much to subtract from. A hard disk leaves the machine as idle as it
    # does with one.
    if [[ $model != hdd-* || $2 == 1 ]]; then
        overhead_ns=$(python3 "$work/overhead.py" "$work/fio.json" "$work/stats.json" "$2")
    fi
    disk "$model" "$overhead_ns" >"$work/one.toml"
    rm -rf "$work/simulated"
    "$MIRRORBALL" compare "$work/one.toml" "$work/$name.fio" --policy first --repeats 1 \
        --output "$work/simulated" --format csv >"$work/compare.out" 2>&1
    python3 "$work/line.py" "$work/fio.json" "$work"/simulated/cells/*first*.json \
        "$work/stats.json" "$model" "$name" "$3" "$4" "$overhead_ns" || failed=1
}

echo "IOPS, difference, demerit, lateness of the emulation, and the machine's part; $seconds s each"
printf '%-20s %-13s %9s %9s %8s  %7s  %9s %9s  %9s\n' \
    model job simulated emulated differ demerit "late p50" "late p99" machine
for model in hdd-7k2-ent hdd-7k2-desktop hdd-5k4; do
    try "$model" 1 3 5
    try "$model" 32 3 5
done
try ssd-sata-consumer 1 10 inf
try ssd-sata-consumer 8 10 inf
exit "$failed"
