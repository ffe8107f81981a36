#!/usr/bin/env bash
# Captured loads against the jobs that are fitted to them, on a real btrfs over emulated disks; and
# what a recording costs.
#
#   benches/capture.sh [SECONDS [LOAD]...]      each run takes so long; 60 if not given
#
# Load and fitted job run three times in turn, and the medians are compared: a load alone differs
# from itself by up to 20 %.
#
# As root, because of loop devices and tracefs. fio puts three loads on one file of a btrfs raid1
# without copy-on-write, while `mirrorball capture` records. The fitted job, which needs a file of
# its own, is then run by fio on the same btrfs. Latencies are those of all requests together.
# The cost is that at 50,000 reads/s of a loop device in memory, with and without a recording.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${1:-60}
loads=("${@:2}")

need fio:fio mkfs.btrfs:btrfs-progs python3:python3
need_loop_devices
need_filesystem btrfs
build

cat >"$work/line.py" <<'PYTHON'
"""One line of the table, from two reports of fio."""
import json
import statistics
import sys

def figures(path):
    text = open(path).read()
    jobs = json.loads(text[text.index("{"):])["jobs"]
    kinds = [job[kind] for job in jobs for kind in ("read", "write") if job[kind]["total_ios"]]
    bins = {}
    for kind in kinds:
        for ns, count in kind["clat_ns"]["bins"].items():
            bins[int(ns)] = bins.get(int(ns), 0) + count
    total, seen, p99 = sum(bins.values()), 0, 0
    for ns in sorted(bins):
        seen += bins[ns]
        if seen >= 0.99 * total:
            p99 = ns
            break
    mean = sum(ns * count for ns, count in bins.items()) / total
    return sum(kind["iops"] for kind in kinds), mean / 1e6, p99 / 1e6

def medians(paths):
    return [statistics.median(column) for column in zip(*map(figures, paths))]

load, fitted = medians(sys.argv[2:5]), medians(sys.argv[5:8])
cells = [f"{a:9.1f} {b:9.1f} {100 * (b / a - 1):+6.1f} %" for a, b in zip(load, fitted)]
print(f"{sys.argv[1]:12}", "  ".join(cells))
PYTHON

cat >"$work/array.toml" <<TOML
name = "2 HDDs"
profile = "raid1"
[[member]]
model = "hdd-7k2-ent"
count = 2
size = "16G"
TOML
cat >"$work/random.fio" <<FIO
[random]
rw=randread
bs=4k
iodepth=8
FIO
cat >"$work/streams.fio" <<FIO
[stream]
rw=read
bs=128k
iodepth=2
rate_iops=100
[random]
rw=randread
bs=8k
iodepth=32
rate_iops=40
rate_process=poisson
FIO
cat >"$work/mixed.fio" <<FIO
[mixed]
rw=randrw
rwmixread=70
bs=8k
iodepth=4
FIO

start_server emulate "$work/array.toml" --members --loop
mapfile -t disks < <(devices)
mkfs.btrfs --quiet --force --data raid1 --metadata raid1 "${disks[@]}" >"$work/mkfs" 2>&1
mounted=$work/filesystem
mkdir -p "$mounted"
mount -o nossd,nodatacow "${disks[0]}" "$mounted"
lay() {
    (cd "$mounted" &&
        fio --name=lay --filename="$1" --size="$2" --rw=write --bs=1m --end_fsync=1 \
            >"$work/lay.out")
}
# Runs the job $1 in the filesystem, with its report in $2.
run() {
    (cd "$mounted" && "${ahead[@]}" fio --output-format=json+ --output="$2" "$1" >"$work/fio.out")
}
lay file 1024m
echo "Linux $(uname -r), btrfs raid1 on two emulated hdd-7k2-ent; $seconds s each"
printf '%-12s %28s  %28s  %28s\n' load "IOPS: load, fitted" "mean, ms" "p99, ms"
if ((${#loads[@]} == 0)); then loads=(random streams mixed); fi
for load in "${loads[@]}"; do
    {
        printf '[global]\nioengine=libaio\ndirect=1\nfilename=file\nsize=1g\ntime_based\n'
        printf 'norandommap\nruntime=%s\nramp_time=2\n' "$seconds"
        cat "$work/$load.fio"
    } >"$work/job.fio"
    run "$work/job.fio" "$work/load-1.json" &
    fio=$!
    sleep 2
    "$MIRRORBALL" capture "$mounted" --for "$seconds"s -o "$work/load.trace" --force \
        >"$work/captured" 2>&1 ||
        { cat "$work/captured" >&2; wait "$fio"; exit 1; }
    wait "$fio"
    "$MIRRORBALL" import trace "$work/load.trace" --fit "$work/fitted.fio" --force \
        >"$work/fit.out"
    size=$(sed -n 's/^size=\([0-9]*\)m/\1/p' "$work/fitted.fio" | sort -n | tail -1)
    rm -f "$mounted/load"
    lay load "$((size + 64))m"
    sed -i -e "s/^runtime=.*/runtime=$seconds\nramp_time=2/" "$work/fitted.fio"
    for turn in 1 2 3; do
        if ((turn > 1)); then run "$work/job.fio" "$work/load-$turn.json"; fi
        run "$work/fitted.fio" "$work/fitted-$turn.json"
    done
    python3 "$work/line.py" "$load" "$work"/load-?.json "$work"/fitted-?.json
    sed -n 's/^\(recorded\|overhead\)/    \1/p' "$work/captured"
    if [[ -n ${VERBOSE:-} ]]; then cat "$work/fitted.fio"; fi
done
umount "$mounted"
mounted=""
stop_server

dd if=/dev/zero of=/dev/shm/mirrorball-capture bs=1M count=256 2>"$work/dd"
loop=$(losetup --find --show --direct-io=off /dev/shm/mirrorball-capture)
rate() {
    "${ahead[@]}" fio --name=a --filename="$loop" --rw=randread --bs=4k --direct=1 \
        --ioengine=libaio --iodepth=16 --time_based --runtime=10 --rate_iops=50000 --minimal |
        cut -d';' -f8
}
printf '\nreads/s at 50,000 asked for: without and with a recording\n'
for _ in 1 2 3; do
    without=$(rate)
    "$MIRRORBALL" capture "$loop" --for 12s -o "$work/fast.trace" --force >"$work/captured" 2>&1 &
    capture=$!
    sleep 2.2
    with=$(rate)
    wait "$capture"
    captured=$(grep -E '^(recorded|overhead)' "$work/captured" | tr '\n' ' ')
    echo "$without $with $captured"
done
losetup -d "$loop"
rm /dev/shm/mirrorball-capture
