#!/bin/busybox sh
# What the guest of limits-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh

# KiB of the second disk that are rebuilt.
rebuilt() {
    sed -n 's,.*recovery = .* (\([0-9]*\)/.*,\1,p' /proc/mdstat
}

# Reads for a while; sets $reads (reads/s) and $p99 (us).
read_for_a_while() {
    fio --filename=/dev/md0 --output-format=terse --terse-version=3 /jobs/reader.fio \
        >/run/fio 2>&1 || fail "fio: $(cat /run/fio)"
    reads=$(awk -F ';' '/^3;/ { print $8 }' /run/fio)
    # The first percentiles are those of reads.
    p99=$(tr ';' '\n' </run/fio | sed -n 's/^99\.000000%=//p' | head -n 1)
}

# Rebuilds the second disk under a limit in KiB/s, with a reader.
measure() {
    echo "$1" >/sys/block/md0/md/sync_speed_max
    try mdadm --zero-superblock /dev/sdb
    try mdadm /dev/md0 --add /dev/sdb
    sleep 5
    before=$(rebuilt)
    read_for_a_while
    after=$(rebuilt)
    rate=$(awk -v a="$after" -v b="$before" -v s="$seconds" \
        'BEGIN { printf "%.1f", (a - b) * 1.024e-3 / s }')
    echo "result,$1,$reads,$p99,$rate"
    drop_second
}

drop_second() {
    try mdadm /dev/md0 --fail /dev/sdb
    sleep 1
    try mdadm /dev/md0 --remove /dev/sdb
}

seconds=$(sed -n 's/^runtime=//p' /jobs/reader.fio)
attach_disks
try modprobe raid1
try mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=2 --assume-clean \
    --bitmap=none /dev/sda /dev/sdb
drop_second
read_for_a_while
echo "result,alone,$reads,$p99,0"
for limit in 200000 20000 8000 2000; do measure $limit; done
echo "== all is well"
poweroff -f
