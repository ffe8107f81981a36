#!/usr/bin/env bash
# Members of a real md raid1, served by their own metadata: clean, degraded, after a loss of power,
# and two halves that ran alone.
#
#   benches/md-in-qemu.sh [FOLDER]
#
# Debian's stock kernel in QEMU (see qemu.sh) makes arrays of disks of 64 MiB with mdadm, and writes
# to them. What it reads of the array at the end, `mirrorball serve --read-only` of the disks has to
# read, without changing them. Five cases, half a minute each. FOLDER gets the superblocks of the
# members, of which tests have copies. Exits with 1 if a case differs.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"
output=${1:-$work/output}
mkdir -p "$output"

need qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt mdadm:mdadm
build

start_guest_tree crypto lib drivers/md drivers/block drivers/scsi
need_module raid1
copy_program "$(command -v mdadm)" mdadm
pack_guest "$root/benches/md-in-qemu.guest.sh"
cd "$work"
mkdir -p mount

# Boots the guest with this case and empty disks; $sum is what it read of the array at the end.
guest_case() {
    local member disks=()
    echo "== $kernel: $2"
    rm -f a b c
    truncate -s 64M a b c
    for member in a b c; do
        disks+=(-drive "file=$member,format=raw,if=none,id=$member"
            -device "scsi-hd,drive=$member")
    done
    run_guest "case=$1" -device virtio-scsi-pci,id=scsi "${disks[@]}" >console
    if ! grep -qx "== all is well" console; then
        cat console
        exit 1
    fi
    sum=$(sed -n 's/^sum //p' console)
    for member in a b c; do
        dd if=$member of="$output/$1-$member" bs=4096 skip=1 count=1 status=none
    done
}

# Serves these members: a note must have TEXT in it, and the volume the sum of the guest.
served() {
    local text=$1 found
    shift
    sha256sum "$@" >before
    start_server serve --read-only "$@"
    found=$(sha256sum mount/* | cut -d ' ' -f 1)
    stop_server
    sha256sum --quiet --check before
    if [[ $found != "$sum" ]] || ! grep -q "$text" log; then
        cat log
        echo "$*: $found, and the guest read $sum"
        exit 1
    fi
    echo "    $*: equal ($(grep "$text" log))"
}

# Tries to serve these members: the error must have TEXT in it.
refused() {
    local text=$1
    shift
    if start_server serve --read-only "$@" 2>/dev/null || ! grep -q "$text" log; then
        cat log
        echo "$*: not refused"
        exit 1
    fi
    echo "    $*: $(grep -m 1 "$text" log)"
}

guest_case clean "stopped in good order"
served "md raid1 of 3 members" a b c
served "1 is missing" c b
served "2 are missing" b

guest_case degraded "a member failed, and the others were written to"
served "\`b\` missed writes" a b c
served "1 is missing" a c

guest_case dirty "the power was lost while it was written to"
served "only \`a\` is read" c b a

guest_case spare "a member was replaced by a spare"
served "md raid1 of 2 members" a c
served "\`b\` " a b c

guest_case halves "two halves ran alone"
refused "ran without each other" a b
served "1 is missing" b
echo "== all is well"
