#!/usr/bin/env bash
# Trees for the tests of `mirrorball detect`: real arrays under Debian's stock kernel.
#
#   benches/record-in-qemu.sh FOLDER [NAME]...
#
# Boots Debian's kernel in QEMU (see qemu.sh) with disks that are sparse files and have the names,
# sizes and rotation rates of disks that people own. The guest makes each array, records it with
# record-sysroot.sh, and the trees are left in FOLDER/NAME; see record-in-qemu.guest.sh for the
# NAMEs. All of them if none is given. No root needed.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"
folder=${1:?usage: record-in-qemu.sh FOLDER [NAME]...}
shift

for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt mdadm:mdadm \
    lvm:lvm2 dmsetup:dmsetup mkfs.btrfs:btrfs-progs mkfs.xfs:xfsprogs sfdisk:fdisk nvme:nvme-cli \
    cryptsetup:cryptsetup-bin; do
    if ! command -v "${pair%%:*}" >/dev/null; then
        echo "${pair%%:*} is missing: apt-get install ${pair##*:}" >&2
        exit 2
    fi
done

start_guest_tree crypto lib fs/btrfs fs/xfs drivers/md drivers/block drivers/scsi drivers/nvme \
    drivers/ata arch/x86/crypto
for program in mdadm lvm dmsetup btrfs mkfs.btrfs mkfs.xfs sfdisk nvme cryptsetup; do
    copy_program "$(command -v "$program")" "$program"
done
for program in lvs lvcreate lvchange vgcreate vgchange pvcreate; do
    ln -s lvm "$guest/bin/$program"
done
mkdir -p "$guest/etc/lvm"
cp "$root/benches/qemu.lvm.conf" "$guest/etc/lvm/lvm.conf"
cp "$root/benches/record-sysroot.sh" "$guest/bin/"
pack_guest "$root/benches/record-in-qemu.guest.sh"

# A SCSI disk: bytes, vendor, product, firmware, serial number, and revolutions a minute (1: none).
arguments=(-device "virtio-scsi-pci,id=scsi")
number=0
disk() {
    number=$((number + 1))
    truncate -s "$1" "$work/disk$number"
    arguments+=(-drive "if=none,id=d$number,format=raw,file=$work/disk$number")
    arguments+=(-device "scsi-hd,drive=d$number,bus=scsi.0,$(
        printf 'vendor=%s,product=%s,ver=%s,serial=%s,rotation_rate=%s' "${@:2}")")
}

# What the kernel says of SATA disks: the vendor is ATA, and the model is cut to 16 characters.
disk 1000204886016 ATA "WDC WD10EZEX-08W" 1A01 WD-WCC6Y3KJ8A11 7200
disk 1000204886016 ATA "Samsung SSD 870 " 2B6Q S5Y2NF0R123456 1
disk 4000787030016 ATA "ST4000VN008-2DR1" SC60 ZDH1AAA1 5980
disk 4000787030016 ATA "ST4000VN008-2DR1" SC60 ZDH1AAA2 5980
disk 4000787030016 ATA "ST4000VN008-2DR1" SC60 ZDH1AAA3 5980
disk 4000787030016 ATA "WDC WD40EFRX-68N" 0A82 WD-WCC7K1AAAAA4 5400
disk 3000592982016 ATA "TOSHIBA HDWD130 " ACF0 Z5AAAAAAS 7200
disk 4000787030016 ATA "WDC WD40EFRX-68N" 0A82 WD-WCC7K1AAAAA5 5400
disk 8001563222016 ATA "ST8000DM004-2CX1" 0001 WCT1AAA1 5425

# A multipath namespace: two controllers of subsystems with one name, each with the namespace. The
# first controller of the second subsystem only takes number 0, which the first subsystem uses.
truncate -s 1920383410176 "$work/path1" "$work/path2"
for path in 1 2; do
    arguments+=(-drive "if=none,id=p$path,format=raw,file=$work/path$path")
    arguments+=(-device "nvme-subsys,id=s$path,nqn=array")
done
uuid=8d1f3c52-5a40-4f0e-9c3f-6a7b8c9d0e1f
arguments+=(-device "nvme,id=first,serial=ARRAY0001,subsys=s1")
arguments+=(-device "nvme,id=refused,serial=ARRAY0001,subsys=s2")
arguments+=(-device "nvme,id=second,serial=ARRAY0001,subsys=s2")
arguments+=(-device "nvme-ns,drive=p1,bus=first,nsid=1,uuid=$uuid")
arguments+=(-device "nvme-ns,drive=p2,bus=second,nsid=1,uuid=$uuid")

# A disk with two paths: one file behind two controllers, as the last disks.
truncate -s 100G "$work/shared"
for path in 1 2; do
    arguments+=(-device "virtio-scsi-pci,id=path$path")
    arguments+=(-drive "if=none,id=m$path,format=raw,file=$work/shared,file.locking=off")
    arguments+=(-device "scsi-hd,drive=m$path,bus=path$path.0,scsi-id=20,share-rw=on,$(
        printf 'vendor=LIO-ORG,product=VIRTUAL-DISK,ver=4.0,serial=8f2a1c44,rotation_rate=0')")
done

truncate -s 64M "$work/trees.tar"
arguments+=(-drive "if=virtio,format=raw,file=$work/trees.tar")
echo "== $kernel, in QEMU"
run_guest "trees=$(IFS=,; echo "$*")" "${arguments[@]}" | tee "$work/output"
grep -qx "== all is well" "$work/output"
mkdir -p "$folder"
tar -x -f "$work/trees.tar" -C "$work"
for tree in "$work"/trees/*; do
    rm -rf "${folder:?}/$(basename "$tree")"
    cp -a "$tree" "$folder"
done
