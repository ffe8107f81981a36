#!/usr/bin/env bash
# Ten job files with files: fio on an ext4 on an emulated hard disk, against the simulation.
#
#   benches/jobs-on-ext4.sh [SECONDS [JOB]...]      each run takes so long; 30 if not given
#
# As root, because of loop devices. What the machine around the disk costs a read of the raw device
# is given to the simulation as the host's overhead. IOPS of all sections together must agree within
# 10 %. The files are written before they are measured (`overwrite`), as the simulation knows no
# allocation, each job on a file system of its own. The disk's write cache is full when measuring
# starts (`ramp_time`). The journal does not flush the disk (`nobarrier`): its flush every 5 s
# cost a mix a quarter of its IOPS. Requests have at most 512 KiB: the kernel cuts larger ones at
# 128 pages.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${1:-30}
names=("${@:2}")

need fio:fio mkfs.ext4:e2fsprogs python3:python3
need_loop_devices
need_filesystem ext4
build

cat >"$work/line.py" <<'PYTHON'
"""One line of the table, from fio's report and a simulated cell."""
import json
import sys

name, fio_path, cell_path = sys.argv[1:]
text = open(fio_path).read()
jobs = json.loads(text[text.index("{"):])["jobs"]
sections = json.load(open(cell_path))["sections"]
kinds = lambda part: [part[kind] for kind in ("read", "write") if kind in part]
rate = lambda parts: sum(kind["iops"] for part in parts for kind in kinds(part))
ours, theirs = rate(sections), rate(jobs)
is_near = abs(theirs / ours - 1) <= 0.1
print(f"{name:14} {ours:9.1f} {theirs:9.1f} {100 * (theirs / ours - 1):+6.1f} %"
      f"{'' if is_near else '  DIFFERS'}")
sys.exit(0 if is_near else 3)
PYTHON

cat >"$work/overhead.py" <<'PYTHON'
"""What a read took beyond what the emulated disk did, in ns."""
import json
import sys

text = open(sys.argv[1]).read()
read = json.loads(text[text.index("{"):])["jobs"][0]["read"]
member = json.load(open(sys.argv[2]))["members"][0]
print(max(0, round(1e9 / read["iops"] - member["read_wait"]["mean_ns"])))
PYTHON

# The array file of one disk, on a host whose overhead is this number of nanoseconds.
disk() {
    printf 'name = "one HDD"\nprofile = "single"\n[host]\noverhead = "%sns"\n' "$1"
    printf '[[member]]\nmodel = "hdd-7k2-ent"\nsize = "16G"\n'
}
disk 0 >"$work/array.toml"

# The sections of each job, below the options that all have.
declare -A jobs=(
    [random]=$'[a]\nrw=randread\nbs=4k\nsize=1g'
    [sequential]=$'[a]\nrw=read\nbs=512k\nsize=2g'
    [clones]=$'[a]\nrw=read\nbs=512k\nsize=512m\nnumjobs=4'
    [files]=$'[a]\nrw=randread\nbs=8k\nsize=1g\nnrfiles=8\niodepth=4'
    [mixed]=$'[a]\nrw=randrw\nrwmixread=70\nbs=8k\nsize=1g\niodepth=4'
    [writes]=$'[a]\nrw=randwrite\nbs=16k\nsize=1g'
    [sizes]=$'[a]\nrw=randread\nbssplit=4k/60:64k/30:256k/10\nsize=1g\niodepth=2'
    [rate]=$'[a]\nrw=randread\nbs=4k\nsize=1g\nrate_iops=60'
    [two]=$'[a]\nrw=read\nbs=128k\nsize=1g\n[b]\nrw=randread\nbs=4k\nsize=1g'
    [zipf]=$'[a]\nrw=randread\nbs=4k\nsize=1g\nrandom_distribution=zipf:1.1\niodepth=8'
)

start_server emulate "$work/array.toml" --members --loop
mapfile -t disks < <(devices)
ask stats --reset >"$work/before.json"
"${ahead[@]}" fio --name=a --filename="${disks[0]}" --rw=randread --bs=4k --direct=1 --size=1g \
    --ioengine=libaio --time_based --runtime="$seconds" --output-format=json \
    --output="$work/raw.json" >"$work/fio.out"
ask stats >"$work/after.json"
overhead=$(python3 "$work/overhead.py" "$work/raw.json" "$work/after.json")
disk "$overhead" >"$work/array.toml"
mounted=$work/filesystem
mkdir -p "$mounted"
differ=0
echo "ext4 of Linux $(uname -r) on an emulated hdd-7k2-ent; $seconds s each;" \
    "machine $((overhead / 1000)) us a request"
printf '%-14s %9s %9s %8s\n' job simulated ext4 differ
if ((${#names[@]} == 0)); then
    names=(random sequential clones files mixed writes sizes rate two zipf)
fi
for name in "${names[@]}"; do
    {
        printf '[global]\nioengine=libaio\ndirect=1\ntime_based\n'
        printf 'runtime=%s\nramp_time=%s\n' "$seconds" "$seconds"
        printf 'norandommap\noverwrite=1\n%s\n' "${jobs[$name]}"
    } >"$work/$name.fio"
    rm -rf "$work/simulated"
    mkfs.ext4 -q -F -E lazy_itable_init=1,lazy_journal_init=1 "${disks[0]}" >"$work/mkfs"
    mount -o noatime,lazytime,nobarrier,noinit_itable "${disks[0]}" "$mounted"
    "$MIRRORBALL" compare "$work/array.toml" "$work/$name.fio" --policy first --repeats 1 \
        --no-oracle --output "$work/simulated" >"$work/compare.out" 2>&1 ||
        { cat "$work/compare.out" >&2; exit 1; }
    (cd "$mounted" && fio --create_only=1 "$work/$name.fio" >"$work/lay.out" && sync
        "${ahead[@]}" fio --output-format=json --output="$work/fio.json" "$work/$name.fio" \
            >"$work/fio.out" 2>&1)
    python3 "$work/line.py" "$name" "$work/fio.json" "$work"/simulated/cells/*first*.json ||
        ((differ += $? == 3))
    umount "$mounted"
done
mounted=""
stop_server
if ((differ)); then exit 1; fi
