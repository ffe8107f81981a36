#!/usr/bin/env bash
# What a limit on a rebuild costs and brings: md of Debian's stock kernel on two emulated disks.
#
#   benches/limits-in-qemu.sh [FOLDER]      SECONDS_EACH=20 is the default
#
# In the guest the second disk is rebuilt under each value of sync_speed_max, while fio reads 4 KiB
# at random places, one at a time. Then `compare` simulates the same. FOLDER gets limits.csv.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"
output=${1:-$work/output}
seconds=${SECONDS_EACH:-20}

need qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt fio:fio mdadm:mdadm
build
start_guest_tree crypto lib drivers/md drivers/block drivers/scsi
for program in fio mdadm; do copy_program "$(command -v "$program")" "$program"; done
mkdir -p "$guest/jobs" "$output" "$work/mount"
sed -e "s/^runtime=.*/runtime=$seconds/" "$root/jobs/rand-4k-qd1.fio" >"$guest/jobs/reader.fio"
# The pair; in the simulation with the state of the second disk and the overhead of the guest.
pair() {
    printf 'name = "pair"\nlayout = "md-raid1"\n[host]\noverhead = "%sus"\n' "$1"
    printf '[[member]]\nmodel = "hdd-7k2-ent"\nsize = "128GB"\n%.0s' 1 2
    echo "$2"
}
pair 0 "" >"$work/whole.toml"
pack_guest "$root/benches/limits-in-qemu.guest.sh"
if ((${#ahead[@]})); then urgent=(chrt --rr 5); fi

start_server emulate "$work/whole.toml" --members
disks=()
for member in 1 2; do
    disks+=(-blockdev "driver=file,node-name=m$member,cache.direct=on,aio=native,$(
        )filename=$work/mount/member-$member")
done
run_guest "" "${disks[@]}" -object iothread,id=io -device virtio-scsi-pci,id=scsi,iothread=io \
    -device "scsi-hd,drive=m1,rotation_rate=7200" -device "scsi-hd,drive=m2,rotation_rate=7200" |
    tee "$work/console"
stop_server
grep -qx "== all is well" "$work/console"

# Simulates the reader with this line of the array and this pragma: reads/s, p99 in us, MB/s.
simulate() {
    pair "$1" "$2" >"$work/pair.toml"
    { echo "$3"; cat "$root/jobs/rand-4k-qd1.fio"; } >"$work/reader.fio"
    rm -rf "$work/simulated"
    "$MIRRORBALL" compare "$work/pair.toml" "$work/reader.fio" -p md/raid1 --no-oracle \
        --repeats 1 --duration "${seconds}s" -o "$work/simulated" >/dev/null 2>&1
    cat "$work"/simulated/cells/*.json | python3 -c '
import json, sys
run = json.load(sys.stdin)
reads = run["sections"][0]["read"]
# A rebuild reads what it writes.
rate = run["background_bytes"] / 2 / run["measured_ns"] * 1e3
p99 = reads["percentiles"]["p99_ns"] / 1e3
print("%.1f,%.0f,%.1f" % (reads["iops"], p99, rate))'
}

overhead=0
echo "limit_kib,reads_per_s,p99_us,rebuilt_mb_per_s,simulated_reads,simulated_p99,simulated_mb" \
    >"$output/limits.csv"
sed -n 's/^result,//p' "$work/console" | while IFS=, read -r limit reads p99 rate; do
    if [[ $limit == alone ]]; then
        # What a read takes longer in the guest.
        simulated=$(simulate 0 "failed = true" "")
        overhead=$(python3 -c "print(max(0, round(1e6 / $reads - 1e6 / ${simulated%%,*})))")
        simulated=$(simulate "$overhead" "failed = true" "")
    else
        simulated=$(simulate "$overhead" 'rebuilding = "1GiB"' \
            "; mirrorball: background=rebuild as=md rate=${limit}KiB/s")
    fi
    echo "$limit,$reads,$p99,$rate,$simulated"
done | tee -a "$output/limits.csv"
