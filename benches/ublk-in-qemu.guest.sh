#!/bin/busybox sh
# What the guest of ublk-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh

# Starts a server of block devices, and waits until it is ready.
start() {
    # Else the words of the one before might be taken for its own.
    : >/run/output
    chrt --fifo 10 mirrorball "$@" --export ublk --control /run/control 2>/run/output &
    server=$!
    until grep -qx ready /run/output; do
        kill -0 $server 2>/dev/null || fail "it did not start"
        sleep 0.1
    done
    sed 's/^/    /' /run/output
}

# Ends the server, and fails unless it says that it went well.
stop() {
    kill -TERM $server
    wait $server || fail "it ended with $?"
    sed -n '/^ready$/,$s/^/    /p' /run/output
    if ls /dev/ublk[bc]* >/dev/null 2>&1; then fail "devices are left: $(ls /dev/ublk*)"; fi
}

devices() {
    sed -n 's,^.* bytes at \(/dev/ublkb.*\)$,\1,p' /run/output
}

forget() {
    echo 3 >/proc/sys/vm/drop_caches
}

# Fails unless a part of a device, in MiB, has this checksum.
expect() {
    forget
    found=$(dd if="$1" bs=1M skip="$2" count="$3" 2>/dev/null | sha256sum)
    [ "$found" = "$4" ] || fail "$1 at $2 MiB: not what was written"
}

checksum() {
    dd if="$1" bs=1M skip="$2" count="$3" 2>/dev/null | sha256sum
}

verify() {
    fio --name=verify --filename="$1" --offset=64m --size=32m --bs=4k --rw=randwrite \
        --ioengine=libaio --iodepth=32 --direct=1 --verify=crc32c --verify_fatal=1 --fsync=256 \
        --output-format=terse --terse-version=3 >/run/fio || fail "fio: $(cat /run/fio)"
}

echo "== without the driver"
mirrorball emulate ssd-sata-consumer --size 256M --export ublk 2>/run/output &&
    fail "it started without the driver"
sed 's/^/    /' /run/output
grep -q "modprobe ublk_drv" /run/output || fail "it did not say what to do"
modprobe ublk_drv || fail "no ublk_drv"
modprobe xfs || fail "no xfs"

echo "== one disk"
disk="emulate ssd-sata-consumer --size 512M --backing /run/disk.img"
# Words of a command line, split here on purpose.
# shellcheck disable=SC2086
start $disk
device=$(devices)
for limit in logical_block_size physical_block_size rotational write_cache fua max_sectors_kb \
    discard_max_bytes write_zeroes_max_bytes; do
    echo "    $limit $(cat "/sys/block/${device#/dev/}/queue/$limit")"
done
[ "$(cat "/sys/block/${device#/dev/}/size")" = 1048576 ] || fail "its size"
dd if=/dev/urandom of=/run/noise bs=1M count=16 2>/dev/null
noise=$(sha256sum </run/noise)
dd if=/run/noise of="$device" bs=1M seek=16 conv=fsync 2>/dev/null
expect "$device" 16 16 "$noise"
[ "$(checksum /run/disk.img 16 16)" = "$noise" ] || fail "the file behind it has something else"
echo "    written and read back: as it was"
verify "$device"
echo "    fio, verify=crc32c: every block is what was written"
zeroes=$(dd if=/dev/zero bs=1M count=4 2>/dev/null | sha256sum)
/bin/blkdiscard --offset 20MiB --length 4MiB "$device" || fail "discard"
expect "$device" 20 4 "$zeroes"
/bin/blkdiscard --zeroout --offset 28MiB --length 4MiB "$device" || fail "zeroes"
expect "$device" 28 4 "$zeroes"
[ "$(checksum "$device" 24 4)" = "$(dd if=/run/noise bs=1M skip=8 count=4 2>/dev/null |
    sha256sum)" ] || fail "more was discarded than was to be"
echo "    a discard and a run of zeroes: they read as zeroes, and their neighbours stay"
# Flushes that the disk was asked for, less those that the kernel asked for as such: FUA writes.
durable() {
    asked=$(mirrorball ctl --control /run/control stats --format json |
        sed -n 's/.*"flushes": *\([0-9]*\).*/\1/p' | head -n 1)
    # Field 16 of a block device's stat file: flush requests that ended.
    flushed=$(awk '{ print $16 }' "/sys/block/${device#/dev/}/stat")
    echo $((asked - flushed))
}
before=$(durable)
fio --name=fua --filename="$device" --offset=128m --size=64k --bs=4k --rw=write --ioengine=psync \
    --sync=dsync --direct=1 --output-format=terse --terse-version=3 >/run/fio || fail "fua"
after=$(durable)
echo "    16 writes with O_DSYNC: $((after - before)) were FUA writes, each flushed"
[ $((after - before)) -eq 16 ] || fail "writes that were to be durable were not"

echo "== XFS on it"
mkfs.xfs -q "$device" || fail "mkfs.xfs"
mkdir -p /run/filesystem
mount -t xfs "$device" /run/filesystem || fail "mount"
(cd /run/filesystem && cp /run/noise noise && tar -c -f tar -C / bin/fio etc 2>/dev/null
    fio --name=files --directory=/run/filesystem --nrfiles=8 --size=16m --bs=16k --rw=randwrite \
        --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c --verify_fatal=1 \
        --output-format=terse --terse-version=3 >/run/fio || fail "fio: $(cat /run/fio)"
    sha256sum ./* >/run/sums)
umount /run/filesystem
xfs_repair -n "$device" >/run/repair 2>&1 || fail "xfs_repair: $(cat /run/repair)"
echo "    clean"

echo "== SIGTERM, and another start"
stop
# shellcheck disable=SC2086
start $disk
device=$(devices)
mount -t xfs "$device" /run/filesystem || fail "mount"
(cd /run/filesystem && sha256sum -c /run/sums >/dev/null) || fail "files have changed"
echo "    every file is as it was"

echo "== SIGTERM while it is mounted"
kill -TERM $server
wait $server || fail "it ended with $?"
sed -n '/^ready$/,$s/^/    /p' /run/output
grep -q "still in use" /run/output || fail "it did not say who is left in the cold"
umount /run/filesystem

echo "== kill -9 under load and under a mount, next to another server"
mirrorball emulate hdd-7k2-ent --size 1G --backing none --export ublk 2>/run/other &
other=$!
until grep -qx ready /run/other; do sleep 0.1; done
# shellcheck disable=SC2086
start $disk
device=$(devices)
mount -t xfs "$device" /run/filesystem || fail "mount"
fio --name=load --directory=/run/filesystem --size=64m --rw=randrw --bs=4k --ioengine=libaio \
    --iodepth=32 --direct=1 --time_based --runtime=60 >/run/fio 2>&1 &
load=$!
sleep 8
kill -KILL $server
wait $server
wait $load && fail "fio did not notice"
echo "    fio saw errors"
# shellcheck disable=SC2086
start $disk
grep -q "removed /dev/.* killed left behind" /run/output || fail "it did not say so"
umount /run/filesystem
dd if="$(sed -n 's,^.* bytes at ,,p' /run/other)" of=/dev/null bs=4k count=8 2>/dev/null ||
    fail "the other server lost its device"
kill -TERM $other
wait $other || fail "the other server ended with $?"
device=$(devices)
mount -t xfs "$device" /run/filesystem || fail "mount"
(cd /run/filesystem && sha256sum -c /run/sums >/dev/null) || fail "files have changed"
umount /run/filesystem
verify "$device"
echo "    the data are there"
stop

echo "== md RAID1 on two emulated hard disks"
modprobe raid1 || fail "no raid1"
start emulate two-hdd-raid1 --members
# shellcheck disable=SC2046
mdadm --create /dev/md0 --level=1 --raid-devices=2 --size=1G --assume-clean --bitmap=none --run \
    $(devices) >/run/mdadm 2>&1 || fail "mdadm: $(cat /run/mdadm)"
for depth in 1 16; do
    fio --name=md --filename=/dev/md0 --rw=randread --bs=4k --ioengine=libaio --direct=1 \
        --iodepth=$depth --time_based --runtime=10 --output-format=terse --terse-version=3 \
        >/run/fio || fail "fio: $(cat /run/fio)"
    echo "    random 4 KiB reads at depth $depth: $(cut -d ';' -f 8 /run/fio) IOPS"
done
mirrorball ctl --control /run/control stats | sed 's/^/    /'
verify /dev/md0
mdadm --stop /dev/md0 >/dev/null 2>&1 || fail "mdadm --stop"
stop

echo "== all is well"
poweroff -f
