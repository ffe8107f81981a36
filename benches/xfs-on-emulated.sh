#!/usr/bin/env bash
# Real XFS on an emulated disk: mkfs, fio that checks every block it wrote, xfs_repair.
#
#   benches/xfs-on-emulated.sh [MODEL]
#
# As root, because of the loop device. Passes if no block is wrong and the filesystem is clean, also
# after the server was stopped and started again over the same data.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
model=${1:-hdd-7k2-ent}

need fio:fio mkfs.xfs:xfsprogs
need_loop_devices
need_filesystem xfs
build

disk=(emulate "$model" --size 2G --backing "$work/disk.img" --loop)
start_server "${disk[@]}"
device=$(devices)
echo "== mkfs.xfs on $device, $model"
mkfs.xfs -q "$device"
mkdir "$work/filesystem"
mount "$device" "$work/filesystem"
mounted=$work/filesystem

echo "== fio, verify=crc32c"
(
    cd "$work"
    common=(--directory="$work/filesystem" --verify=crc32c --verify_fatal=1 --do_verify=1
        --output-format=terse --terse-version=3)
    fio --name=direct --rw=randwrite --bs=16k --size=32m --direct=1 --ioengine=libaio --iodepth=16 \
        "${common[@]}" >direct.out
    fio --name=buffered --rw=randwrite --bs=4k --size=16m --fsync=256 --ioengine=psync \
        "${common[@]}" >buffered.out
)
echo "every block is what was written"
sha256sum "$work"/filesystem/* | sed "s,$work/filesystem/,," >"$work/sums"

umount "$mounted"
mounted=""
echo "== xfs_repair -n"
xfs_repair -n "$device" >"$work/repair" 2>&1 || { cat "$work/repair"; exit 1; }
stop_server
start_server "${disk[@]}"
device=$(devices)
xfs_repair -n "$device" >"$work/repair" 2>&1 || { cat "$work/repair"; exit 1; }
mount -o ro "$device" "$work/filesystem"
mounted=$work/filesystem
(cd "$mounted" && sha256sum --quiet --check "$work/sums")
umount "$mounted"
mounted=""
echo "clean, before and after a restart of the server"
