#!/bin/busybox sh
# What the guest of disks-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh

# IOPS and MB/s of a job on each device: a line of the table.
compare() {
    name=$1
    shift
    printf '%-46s' "$name"
    for device in /dev/mapper/delayed /dev/sda /dev/sdb; do
        fio --name=job --filename=$device --ioengine=io_uring --direct=1 --time_based \
            --runtime="$seconds" --output-format=terse --terse-version=3 "$@" >/run/fio 2>&1 ||
            fail "fio: $(cat /run/fio)"
        # IOPS of reads and writes, and KiB/s of both.
        awk -F ';' '/^3;/ { printf " %7d %7.1f", $8 + $49, ($7 + $48) * 1.024 / 1000 }' /run/fio
    done
    echo
}

seconds=$(sed -n 's/.*seconds=\([^ ]*\).*/\1/p' /proc/cmdline)
attach_disks
for module in dm_mod dm_zero dm_delay; do modprobe $module 2>/dev/null; done
sectors=$(cat /sys/block/sda/size)
try dmsetup create zeroes --table "0 $sectors zero"
try dmsetup mknodes
try dmsetup create delayed --table "0 $sectors delay /dev/mapper/zeroes 0 12"
try dmsetup mknodes
printf '%-46s %15s %15s %15s\n' "" "dm-delay" "spinning filter" "emulate"
printf '%-46s %7s %7s %7s %7s %7s %7s\n' "" IOPS MB/s IOPS MB/s IOPS MB/s
compare "random 4 KiB reads, 1 in flight" --rw=randread --bs=4k --iodepth=1
compare "random 4 KiB reads, 32 in flight" --rw=randread --bs=4k --iodepth=32
compare "random 4 KiB reads within 8 GiB, 1 in flight" --rw=randread --bs=4k --iodepth=1 --size=8g
compare "random 4 KiB writes, 32 in flight" --rw=randwrite --bs=4k --iodepth=32
compare "sequential 1 MiB reads, 4 in flight" --rw=read --bs=1m --iodepth=4
compare "sequential 1 MiB reads at the end" --rw=read --bs=1m --iodepth=4 --offset=95%
echo "== all is well"
poweroff -f
