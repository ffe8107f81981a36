#!/usr/bin/env bash
# Three stand-ins for a hard disk under one kernel: dm-delay, nbdkit's spinning filter, `emulate`.
#
#   benches/disks-in-qemu.sh        SECONDS_EACH=8 NBDKIT=PROGRAM are the settings
#
# Boots Debian's kernel in QEMU (see qemu.sh). Its first disk is nbdkit's null plugin behind the
# spinning filter (nbdkit 1.40 or later), its second disk an emulated hdd-7k2-ent; in the guest,
# dm-delay stands on a disk of zeroes of the device mapper. All have 8 TB. dm-delay and the filter
# are set so that a random read of 4 KiB takes 12 ms, as on the disk of the model. The guest runs
# the same five jobs of fio on each; then `emulate` says how late its disk was.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"
seconds=${SECONDS_EACH:-8}
nbdkit=${NBDKIT:-nbdkit}

need qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt fio:fio \
    dmsetup:dmsetup "$nbdkit:nbdkit"
build

start_guest_tree crypto lib drivers/md drivers/block drivers/scsi
need_module dm-delay
for program in fio dmsetup; do copy_program "$(command -v "$program")" "$program"; done
pack_guest "$root/benches/disks-in-qemu.guest.sh"
if ((${#ahead[@]})); then urgent=(chrt --rr 5); fi

# A seek over a third of the disk, the mean of random reads, takes 12 ms on this curve.
"${ahead[@]}" "$nbdkit" --foreground --unix "$work/nbd" --filter=spinning null size=8T \
    min-seek-time=5ms half-seek-time=14ms max-seek-time=21ms &
nbdkit_process=$!
until [[ -S $work/nbd ]]; do sleep 0.1; done
mkdir -p "$work/mount"
start_server emulate hdd-7k2-ent --size 8T
emulated=$(sed -n 's,^.* bytes at ,,p' "$work/log")
echo "== $kernel, in QEMU"
run_guest "seconds=$seconds" -object iothread,id=io \
    -device virtio-scsi-pci,id=scsi,iothread=io \
    -blockdev "driver=nbd,node-name=m1,server.type=unix,server.path=$work/nbd" \
    -device "scsi-hd,drive=m1,lun=1,rotation_rate=7200" \
    -blockdev "driver=file,node-name=m2,cache.direct=on,aio=native,filename=$emulated" \
    -device "scsi-hd,drive=m2,lun=2,rotation_rate=7200" | tee "$work/console"
"$MIRRORBALL" ctl --control "$work/control" stats
kill "$nbdkit_process"
wait "$nbdkit_process" || true
stop_server
grep -qx "== all is well" "$work/console"
