#!/bin/busybox sh
# What the guest of read-policy-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh
mount -t bpf bpf /sys/fs/bpf

steps=$(sed -n 's/.*\bsteps=\([^ ]*\).*/\1/p' /proc/cmdline)
md=/sys/kernel/read_policy/md0

# Registers a program of a file under a name of a folder; false if the kernel refuses it. bpftool
# 7.8 crashes after it registered a struct_ops of a module, so its exit code says nothing.
register() {
    mkdir -p "/sys/fs/bpf/$2"
    bpftool struct_ops register "$1" "/sys/fs/bpf/$2" >/run/output 2>&1
    [ -e "/sys/fs/bpf/$2/mb_ops" ]
}

forget() {
    rm -r "/sys/fs/bpf/$1"
}

use() {
    echo "$1" >"$2/policy" || fail "policy $1: $(cat "$2/policy")"
}

statistic() {
    sed -n "s/^$1 //p" "$2/statistics"
}

# Completed reads of a disk.
reads_of() {
    awk '{ print $1 }' "/sys/block/$1/stat"
}

# Runs a job on a device, and prints what the members served of it.
run_job() {
    first=$(reads_of sda)
    second=$(reads_of sdb)
    echo 3 >/proc/sys/vm/drop_caches
    fio --filename="$3" --output-format=terse --terse-version=3 "/jobs/$1.fio" >/run/fio 2>&1 ||
        fail "fio: $(cat /run/fio)"
    iops=$(awk -F ';' '/^3;/ { print $8 + $49 }' /run/fio)
    first=$(($(reads_of sda) - first))
    second=$(($(reads_of sdb) - second))
    echo "share,$4,$1,$2,$iops,$first,$second"
}

# Shares of the members under each program, and under md's own rule.
measure_shares() {
    for job in $(cd /jobs && ls ./*.fio); do
        job=$(basename "$job" .fio)
        run_job "$job" builtin /dev/md0 md
        for object in /programs/*.bpf.o; do
            name=$(basename "$object" .bpf.o)
            if ! register "$object" "$name"; then
                continue
            fi
            use "bpf:$name" "$md"
            run_job "$job" "$name" /dev/md0 md
            grep -q "^detached no" "$md/statistics" || cat "$md/statistics"
            use builtin "$md"
            forget "$name"
        done
    done
}

attach_disks
modprobe read_policy || fail "no module read_policy"
for object in /programs/*.bpf.o; do
    name=$(basename "$object" .bpf.o)
    if register "$object" "$name"; then
        echo "verifier,$name,accepted"
        forget "$name"
    else
        reason=$(grep -a -m1 -oE '(BPF program is too large|too complex|unbounded|invalid).*' \
            /run/output || tail -n 1 /run/output)
        echo "verifier,$name,$reason"
    fi
done
try modprobe raid1
# Two names of disks.
# shellcheck disable=SC2086
try mdadm --create /dev/md0 --run --force --level=1 --raid-devices=2 --metadata=1.2 \
    --assume-clean --bitmap=none $(printf '/dev/%s ' $disks)
case $steps in *shares*) measure_shares ;; esac
try mdadm --stop /dev/md0
dmesg | grep -E 'read_policy: |BUG|WARN|Oops' || true
echo "== all is well"
poweroff -f
