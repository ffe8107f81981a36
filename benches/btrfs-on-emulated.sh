#!/usr/bin/env bash
# Real btrfs RAID1 on emulated disks, and the simulated btrfs/pid: IOPS and read shares.
#
#   benches/btrfs-on-emulated.sh [SECONDS]      each run takes so long; 30 if not given
#
# As root, because of loop devices. The kernel's btrfs lies on two, then four emulated hard disks;
# fio's job files read one large file there, and the simulation does the same over as many bytes.
# The kernel picks a mirror by the number of the process, so which member serves a lone reader
# differs from run to run; how the reads are shared out does not. A chunk of btrfs is at most a
# tenth of the filesystem, so the disks are large enough for chunks of 1 GiB, as the simulation has
# them. Shares are of reads that members completed, by devid; the kernel's include what btrfs reads
# of its own trees. Of how late the disks were in a run, the worse member's p99 is shown; past the
# server's bound the row is refused.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${1:-30}
file_mib=1024

need fio:fio mkfs.btrfs:btrfs-progs python3:python3
need_loop_devices
need_filesystem btrfs
build

cat >"$work/line.py" <<'PYTHON'
"""One line of the table, from fio's report, a simulated cell and the server's statistics."""
import json
import sys

fio_path, cell_path, before_path, after_path, members, job = sys.argv[1:]
text = open(fio_path).read()
jobs = json.loads(text[text.index("{"):])["jobs"]
before, after = (json.load(open(path))["members"] for path in (before_path, after_path))
reads = [b["reads"] - a["reads"] for a, b in zip(before, after)]
share = lambda counts: "/".join(f"{100 * n / max(1, sum(counts)):.0f}" for n in counts)
cell = json.load(open(cell_path))
ours = sum(s["read"]["iops"] for s in cell["sections"])
theirs = sum(job["read"]["iops"] for job in jobs)
# Of a member that read next to nothing, a quantile says nothing.
late = [m["lateness"] for m, n in zip(after, reads) if n * 100 > sum(reads)]
worst = max(late, key=lambda late: late["p99_ns"])
refused = "" if all(l["within_bound"] for l in late) else "  REFUSED"
print(f"{members:7} {job:14} {ours:9.1f} {theirs:9.1f} {100 * (theirs / ours - 1):+6.1f} %  "
      f"{share([m['reads'] for m in cell['members']]):>14} {share(reads):>14}"
      f"{worst['p99_ns'] / 1e3:9.0f} us{refused}")
sys.exit(3 if refused else 0)
PYTHON

# Makes the job file NAME as it is in jobs/, within the file; NAME-x4 is four clones of it. What
# goes through the page cache ends with the file: another time round the kernel would read no disk.
job() {
    sed -e "s/^runtime=.*/runtime=$seconds/" -e "s/=25%/=$((file_mib / 4))m/" \
        -e "s/^\[.*\]/[$1]/" "$root/jobs/${1%-x4}.fio" >"$work/$1.fio"
    if grep -q '^direct=0' "$work/$1.fio"; then
        sed -i -e '/^time_based/d' -e '/^runtime=/d' "$work/$1.fio"
    fi
    if ! grep -q '^size=' "$work/$1.fio"; then echo "size=${file_mib}m" >>"$work/$1.fio"; fi
    if [[ $1 == *-x4 ]]; then printf 'numjobs=4\ngroup_reporting\n' >>"$work/$1.fio"; fi
}

try() {
    local members=$1 name=$2
    job "$name"
    rm -rf "$work/simulated"
    "$MIRRORBALL" compare "$work/array.toml" "$work/$name.fio" --policy pid --repeats 1 \
        --output "$work/simulated" --format csv >"$work/compare.out" 2>&1 ||
        { cat "$work/compare.out" >&2; return 1; }
    ask stats --reset >"$work/before.json"
    (cd "$work" && "${ahead[@]}" fio --filename="$mounted/file" --output-format=json \
        --output="$work/fio.json" "$work/$name.fio" >"$work/fio.out" 2>&1)
    ask stats >"$work/after.json"
    python3 "$work/line.py" "$work/fio.json" "$work"/simulated/cells/*pid*.json \
        "$work/before.json" "$work/after.json" "$members" "$name" || ((refused += $? == 3))
}

refused=0
echo "btrfs/pid simulated, and btrfs of Linux $(uname -r) on emulated hdd-7k2-ent; $seconds s each"
printf '%-7s %-14s %9s %9s %8s  %14s %14s %12s\n' \
    members job simulated kernel differ "shares, sim." "shares, kernel" "late, p99"
for members in 2 4; do
    # btrfs asks to read 4 MiB ahead, whatever its disks ask for.
    cat >"$work/array.toml" <<TOML
name = "$members HDDs"
profile = "raid1"
[host]
read_ahead_kb = 4096
[[member]]
model = "hdd-7k2-ent"
count = $members
size = "16G"
TOML
    start_server emulate "$work/array.toml" --members --loop
    mapfile -t disks < <(devices)
    mkfs.btrfs --quiet --force --data raid1 --metadata raid1 "${disks[@]}" >"$work/mkfs" 2>&1
    mkdir -p "$work/filesystem"
    # The kernel does not see that the disks rotate.
    mount -o nossd "${disks[0]}" "$work/filesystem"
    mounted=$work/filesystem
    (cd "$work" && fio --name=lay --filename="$mounted/file" --size="${file_mib}m" --rw=write \
        --bs=1m --ioengine=psync --end_fsync=1 >"$work/lay.out"
        # So that the file's checksums are in memory.
        fio --name=warm --filename="$mounted/file" --rw=read --bs=1m --direct=1 >"$work/warm.out")
    for name in rand-4k-qd1 rand-4k-qd32 rand-4k-qd1-x4 seq-read four-streams; do
        try "$members" "$name"
    done
    umount "$mounted"
    mounted=""
    btrfs check --readonly "${disks[0]}" >"$work/check" 2>&1 || { cat "$work/check"; exit 1; }
    stop_server
done
if ((refused)); then
    echo "$refused rows are refused: the disks were late; try a machine with less to do, or a" \
        "kernel with preemption (docs/serving.md, Lateness)" >&2
    exit 1
fi
