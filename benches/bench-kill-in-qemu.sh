#!/usr/bin/env bash
# `mirrorball bench` on a real md RAID1, killed with SIGKILL in the middle: all flags are restored.
#
#   benches/bench-kill-in-qemu.sh
#
# Boots Debian's kernel in QEMU (see qemu.sh) with the members of an emulated array as its disks.
# `bench` gets SIGKILL while a member has another flag than before: alone; together with its
# watchdog; the same, and the array is stopped and assembled; and with a flag that the owner had
# set. Each time all flags must be as before in the end: the first time by the watchdog, the others
# by `bench --restore`, which then must find nothing more to restore.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"

need qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt fio:fio mdadm:mdadm
build

start_guest_tree crypto lib drivers/md drivers/block drivers/scsi
for program in fio mdadm; do copy_program "$(command -v "$program")" "$program"; done
copy_program "$MIRRORBALL" mirrorball
pack_guest "$root/benches/bench-kill-in-qemu.guest.sh"
if ((${#ahead[@]})); then urgent=(chrt --rr 5); fi

cat >"$work/array.toml" <<'ARRAY'
layout = "md-raid1"

[[member]]
model = "hdd-5k4-4tb"

[[member]]
model = "hdd-7k2-4tb"
ARRAY

mkdir -p "$work/mount"
start_server emulate "$work/array.toml" --members
disks=(-object "iothread,id=io" -device "virtio-scsi-pci,id=scsi,iothread=io")
# Names of two kinds of disks: settings that exchange equal disks are not offered.
names=("product=WDC WD40EFRX-68N,rotation_rate=5400"
    "product=ST4000NM0035-1V4,rotation_rate=7200")
for member in 1 2; do
    disks+=(-blockdev "driver=file,node-name=m$member,cache.direct=on,aio=native,$(
        )filename=$work/mount/member-$member"
        -device "scsi-hd,drive=m$member,lun=$member,vendor=ATA,${names[member - 1]}")
done
echo "== $kernel, in QEMU"
run_guest "" "${disks[@]}" | tee "$work/console"
stop_server
grep -qx "== all is well" "$work/console"
