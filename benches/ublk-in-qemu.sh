#!/usr/bin/env bash
# Emulated disks as block devices of the ublk driver, on a kernel that has one: Debian's, in QEMU.
#
#   benches/ublk-in-qemu.sh [OUTPUT]
#
# Needs no root, no KVM and no ublk here: QEMU emulates the CPU. The kernel and mdadm are fetched
# with apt-get (KERNEL=PACKAGE for another one, 6.4 or later; 6.12 and 7.2 were tried) and unpacked,
# not installed. The guest has no disk and no network; it runs ublk-in-qemu.guest.sh, whose words
# are printed, and left in OUTPUT. Times in there are those of an emulated CPU.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"
output=${1:-$work/output}
programs=(fio mkfs.xfs xfs_repair blkdiscard chrt)

for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt \
    fio:fio mkfs.xfs:xfsprogs xfs_repair:xfsprogs blkdiscard:util-linux chrt:util-linux; do
    if ! command -v "${pair%%:*}" >/dev/null; then
        echo "${pair%%:*} is missing: apt-get install ${pair##*:}" >&2
        exit 2
    fi
done
build

start_guest_tree crypto lib fs/xfs drivers/md drivers/block arch/x86/crypto
need_module ublk_drv
echo "== fetching mdadm"
fetch mdadm
copy_program "$MIRRORBALL" mirrorball
copy_program "$work/unpacked/sbin/mdadm" mdadm
for program in "${programs[@]}"; do copy_program "$(command -v "$program")" "$program"; done
pack_guest "$root/benches/ublk-in-qemu.guest.sh"

echo "== $kernel, in QEMU"
run_guest "" | tee "$output"
grep -qx "== all is well" "$output"
