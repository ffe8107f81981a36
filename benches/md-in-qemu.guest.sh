#!/bin/busybox sh
# What the guest of md-in-qemu.sh does, as its first and only process: the case that the kernel was
# given as case=NAME.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh

for module in raid1 md_mod; do modprobe $module 2>/dev/null; done
attach_disks
# Words without spaces.
# shellcheck disable=SC2086
set -- $disks
a=/dev/$1 b=/dev/$2 c=/dev/$3
# Set by the kernel from its command line.
# shellcheck disable=SC2154
echo "== case $case"

# Members MEMBER...: an array of them, synchronised.
create() {
    try mdadm --create /dev/md0 --run --metadata=1.2 --name=data --homehost=guest --level=1 \
        --raid-devices=$# "$@"
    mdadm --wait /dev/md0
}

# Writes new bytes everywhere, of a kind that no other call writes.
fill() {
    try dd if=/dev/urandom of=/dev/md0 bs=1M count=8 conv=fsync
    try dd if=/dev/urandom of=/dev/md0 bs=1M count=8 seek=40 conv=fsync
}

sum() {
    try sync
    echo 3 >/proc/sys/vm/drop_caches
    echo "sum $(sha256sum /dev/md0 | cut -d ' ' -f 1)"
}

stop() { try mdadm --stop /dev/md0; }

case $case in
clean)
    create "$a" "$b" "$c"
    fill
    sum
    stop
    ;;
degraded)
    create "$a" "$b" "$c"
    fill
    try mdadm /dev/md0 --fail "$b"
    fill
    sum
    stop
    ;;
dirty)
    create "$a" "$b" "$c"
    fill
    sum
    # The same bytes again, so that the sum stays. md calls an array clean some time after a write.
    echo 60 >/sys/block/md0/md/safe_mode_delay
    try dd if=/dev/md0 of=/run/first bs=1M count=1
    dd if=/run/first of=/dev/md0 bs=1M conv=fsync 2>/dev/null
    echo "== all is well"
    echo b >/proc/sysrq-trigger
    ;;
spare)
    create "$a" "$b"
    fill
    try mdadm /dev/md0 --fail "$b"
    try mdadm /dev/md0 --add "$c"
    mdadm --wait /dev/md0
    fill
    sum
    stop
    ;;
halves)
    create "$a" "$b"
    fill
    stop
    try mdadm --assemble --run /dev/md0 "$a"
    fill
    stop
    try mdadm --assemble --run /dev/md0 "$b"
    fill
    sum
    stop
    ;;
*) fail "no case" ;;
esac
echo "== all is well"
poweroff -f
