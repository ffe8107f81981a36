#!/usr/bin/env bash
# XFS on an emulated RAID6 behind a controller with a write-back cache: the array and the three runs
# of the recipe xfs-2016-raid6, with the real XFS and fio, and swalloc as a fourth.
#
#   benches/xfs-on-raid6.sh [SPEED [SECONDS]]
#
# As root, because of the loop device. Each run has an array of its own, empty and with an empty
# cache, and takes SECONDS of the disks (60), which is SECONDS / SPEED of the machine. SPEED is 0.1:
# a full stripe of 3 MiB keeps the one thread of the server busy for milliseconds, in which it ends
# other I/O late, and the bound of lateness is in the time of the disks. fio writes zeroes, which
# the memory of the emulated disks does not keep, so a file of 30 GiB needs no memory.
#
# For each run: writes a second in the time of the disks, those of the recipe and of its source; the
# extents of the file, and the share of it in blocks of 3 MiB that are one full stripe.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
speed=${1:-0.1}
seconds=${2:-60}

need fio:fio mkfs.xfs:xfsprogs xfs_bmap:xfsprogs python3:python3
need_loop_devices
need_filesystem xfs
build
runtime=$(python3 -c "print(round($seconds / $speed))")
"$MIRRORBALL" recipe xfs-2016-raid6 --format json >"$work/recipe.json"

cat >"$work/line.py" <<'PYTHON'
"""One line of the table, from fio's report, the recipe's results and the server's statistics."""
import json
import re
import sys

work, row, speed = sys.argv[1], sys.argv[2], float(sys.argv[3])
STRIPE = 3 << 20


def figures(row):
    """Simulated and published writes a second of a row of the recipe."""
    tables = json.load(open(f"{work}/recipe.json"))[0]["tables"]
    cells = [it["cells"][0] for table in tables for it in table["rows"] if it["name"] == row]
    published = cells[0]["published"]
    return f"{cells[0]['ours']:.1f}", f"{published['low']:.0f}" if published else "-"


def extents():
    """First byte in the file, end in the file and first byte on the volume of each extent, written
    or not: neighbours are one."""
    line = re.compile(r"\s*\d+: \[(\d+)\.\.(\d+)\]: +(\d+)\.\.")
    found = []
    for match in filter(None, map(line.match, open(f"{work}/bmap"))):
        start, last, place = (512 * int(text) for text in match.groups())
        if found and found[-1][1] == start and place - found[-1][2] == start - found[-1][0]:
            found[-1][1] = last + 512
        else:
            found.append([start, last + 512, place])
    return found


text = open(f"{work}/fio.json").read()
write = json.loads(text[text.index("{"):])["jobs"][0]["write"]
members = [it["lateness"] for it in json.load(open(f"{work}/stats.json"))["members"]]
lateness = max(it["p99_ns"] for it in members) / 1e3
verdict = "" if all(it["within_bound"] for it in members) else ", refused"
in_one, count, found = 0, 0, extents()
for start, end, place in found:
    starts = range(-(-start // STRIPE) * STRIPE, end - STRIPE + 1, STRIPE)
    in_one += sum((place + block - start) % STRIPE == 0 for block in starts)
    count += end - start
whole = f"{100 * in_one * STRIPE / count:.0f} %" if found else "-"
simulated, published = figures(row)
print(f"| {row} | {published} | {simulated} | {write['iops'] / speed:.1f} "
      f"| {write['total_ios']} in {write['runtime'] * speed / 1e3:.1f} s | {len(found) or '-'} "
      f"| {whole} | {lateness:.0f} us{verdict} |")
with open(f"{work}/extents", "a") as output:
    for start, end, place in found[:12]:
        output.write(f"{row}: {(end - start) / STRIPE:7.2f} blocks from {start / STRIPE:8.2f}, "
                     f"at {place / 2**20:6.0f} MiB, "
                     f"{place % STRIPE / 2**20:.0f} MiB into a full stripe\n")
PYTHON

# Runs fio on an array, and prints a line: the row of the recipe, mount options or "raw", and
# options of fio.
run() {
    local row=$1 options=$2 device target
    shift 2
    start_server emulate "$root/recipes/xfs-2016-raid6/array.toml" --speed "${speed}x" --loop
    device=$(devices)
    target=$device
    if [[ $options != raw ]]; then
        mkfs.xfs -q -K -d su=1024k,sw=3 "$device" 2>"$work/mkfs" || { cat "$work/mkfs"; exit 1; }
        mkdir -p "$work/filesystem"
        mount -o "$options" "$device" "$work/filesystem"
        mounted=$work/filesystem
        xfs_info "$mounted" >"$work/info"
        target=$mounted/file
    fi
    (cd "$work" && fio --name=run --filename="$target" --ioengine=libaio --direct=1 --bs=3m \
        --iodepth=16 --rw=randwrite --runtime="$runtime" --zero_buffers --output-format=json \
        "$@" >"$work/fio.json")
    ask stats >"$work/stats.json"
    : >"$work/bmap"
    if [[ -n $mounted ]]; then
        xfs_bmap -v "$target" >"$work/bmap"
        umount "$mounted"
        mounted=""
    fi
    stop_server >/dev/null
    python3 "$work/line.py" "$work" "$row" "$speed"
}

echo "| run | published | simulated | emulated | writes | extents | whole stripes | lateness, p99 |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|"
run "the volume" raw --time_based
run "a preallocated file" defaults --size=30g --fallocate=posix
run "a sparse file" defaults --size=30g --fallocate=none
run "a preallocated file with swalloc" swalloc --size=30g --fallocate=posix
echo
cat "$work/info" "$work/extents"
