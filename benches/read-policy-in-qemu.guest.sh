#!/bin/busybox sh
# What the guest of read-policy-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh
mount -t bpf bpf /sys/fs/bpf
# Only what is urgent goes to the console.
dmesg -n 1

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

# Shares of the members under each program, and under the built-in rule: SYSTEM FOLDER TARGET.
measure_shares() {
    check_shown "$@"
    for job in $(cd /jobs && ls ./*.fio); do
        job=$(basename "$job" .fio)
        run_job "$job" builtin "$3" "$1"
        for object in /programs/*.bpf.o; do
            name=$(basename "$object" .bpf.o)
            if ! register "$object" "$name"; then
                continue
            fi
            use "bpf:$name" "$2"
            run_job "$job" "$name" "$3" "$1"
            grep -q "^detached no" "$2/statistics" || cat "$2/statistics"
            use builtin "$2"
            forget "$name"
        done
    done
}

# Checks that what a program is shown fits together, while each job runs: SYSTEM FOLDER TARGET.
check_shown() {
    register /check-shown.bpf.o check-shown || fail "check-shown is refused"
    use bpf:check-shown "$2"
    before=$(statistic decisions "$2")
    for job in $(cd /jobs && ls ./*.fio); do
        run_job "$(basename "$job" .fio)" check-shown "$3" "$1" >/run/output
    done
    echo "shown,$1,$(($(statistic decisions "$2") - before)) reads,detached $(
        statistic detached "$2")"
    use builtin "$2"
    forget check-shown
}

# The same on a file of 256 MiB of btrfs.
measure_btrfs() {
    try modprobe btrfs
    # Two names of disks.
    # shellcheck disable=SC2046,SC2086
    try mkfs.btrfs --force --data raid1 --metadata raid1 $(printf '/dev/%s ' $disks)
    mkdir -p /mnt
    try btrfs device scan
    try mount -o nodatacow "/dev/${disks%% *}" /mnt
    try dd if=/dev/zero of=/mnt/file bs=1M count=256 conv=fsync
    measure_shares btrfs "$(echo /sys/kernel/read_policy/*-*)" /mnt/file
    try umount /mnt
    echo "btrfs left: $(ls /sys/kernel/read_policy)"
}

# What the kernel does with each hostile program: refuses it, or has a fallback within a second,
# while fio reads with 128 in flight.
run_hostile() {
    # The one for which a member fails comes last, because the member does not return.
    for object in $(ls /hostile/*.o | grep -v missing) /hostile/missing-mirror.bpf.o; do
        name=$(basename "$object" .bpf.o)
        if ! register "$object" "$name"; then
            echo "hostile,$name,refused,$(reason_of_refusal)"
            forget "$name"
            continue
        fi
        [ "$name" != missing-mirror ] || echo faulty >/sys/block/md0/md/dev-sda/state
        fio --name=hostile --filename=/dev/md0 --rw=randread --bs=4k --iodepth=128 --direct=1 \
            --ioengine=io_uring --size=256m --runtime=3 --time_based --output-format=terse \
            --terse-version=3 >/run/fio 2>&1 &
        fio=$!
        sleep 1
        before=$(statistic invalid "$md")
        use bpf:hostile "$md"
        sleep 1
        state="wrong answers $(($(statistic invalid "$md") - before)): detached $(
            statistic detached "$md")"
        wait $fio || fail "fio: $(cat /run/fio)"
        echo "hostile,$name,$(awk -F ';' '/^3;/ { print $8 }' /run/fio) IOPS,$state"
        use builtin "$md"
        forget "$name"
        sleep 0.5
    done
}

reason_of_refusal() {
    reasons="infinite loop|cannot use helper|not allowed|cannot write|unbounded|unsupported"
    grep -a -m1 -oE "($reasons).*" /run/output || grep -a -v '^[0-9]*: ' /run/output | tail -n 1
}

# Repeats recorded calls of each program, of the disk behind the members: choices must be the same.
run_replay() {
    replay=/sys/kernel/read_policy/replay
    # Recorded calls follow each other without a pause.
    echo 2000 >/sys/module/read_policy/parameters/budget_ms
    for object in /programs/*.bpf.o; do
        name=$(basename "$object" .bpf.o)
        register "$object" "$name" || continue
        before=$(statistic differences $replay)
        decisions=$(statistic decisions $replay)
        use "bpf:$name" $replay
        tar -xOf /dev/sdc "$name" | dd of=$replay/replay bs=4096 iflag=fullblock 2>/run/output ||
            fail "records of $name: $(cat /run/output)"
        echo "replay,$name,$(($(statistic decisions $replay) - decisions)),$((
            $(statistic differences $replay) - before)),$(statistic detached $replay)"
        use builtin $replay
        forget "$name"
    done
    echo 100 >/sys/module/read_policy/parameters/budget_ms
}

# Swaps programs while fio writes and verifies, and members fail and return.
run_swaps() {
    modprobe brd rd_nr=2 rd_size=131072
    try mdadm --create /dev/md1 --run --force --level=1 --raid-devices=2 --metadata=1.2 \
        --bitmap=internal --assume-clean /dev/ram0 /dev/ram1
    array=/sys/kernel/read_policy/md1
    register /programs/mirrorball-auto.bpf.o first || fail "auto is refused"
    register /programs/latency-rr.bpf.o second || fail "latency-rr is refused"
    fio --name=verify --filename=/dev/md1 --rw=randrw --bs=4k --iodepth=16 --direct=1 \
        --ioengine=io_uring --size=96m --io_size=100g --verify=crc32c --verify_backlog=1024 \
        --runtime=$1 --time_based --output-format=terse --terse-version=3 >/run/fio 2>&1 &
    fio=$!
    failures=0
    swaps=0
    while kill -0 $fio 2>/dev/null; do
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
            echo bpf:mirrorball-auto >$array/policy
            echo bpf:latency-rr >$array/policy
            swaps=$((swaps + 2))
        done
        if [ $((swaps % 1000)) = 0 ]; then
            echo faulty >/sys/block/md1/md/dev-ram1/state
            sleep 0.2
            mdadm /dev/md1 --remove /dev/ram1 >/run/output 2>&1 || fail remove
            mdadm /dev/md1 --add /dev/ram1 >/run/output 2>&1 || fail add
            failures=$((failures + 1))
        fi
    done
    wait $fio || fail "fio: $(cat /run/fio)"
    echo "swaps,$swaps,$(statistic swaps $array),failures,$failures,reads and writes a second,$(
        awk -F ';' '/^3;/ { print $8 "," $49 ",errors," $5 }' /run/fio),detached,$(
        statistic detached $array)"
    use builtin $array
    forget first
    forget second
    try mdadm --stop /dev/md1
}

# Instructions of a read under each program above those under md's own rule. The guest's clock
# counts instructions, and its disks are in memory and take no time.
run_count() {
    modprobe brd rd_nr=2 rd_size=65536
    try mdadm --create /dev/md0 --run --force --level=1 --raid-devices=2 --metadata=1.2 \
        --bitmap=none --assume-clean /dev/ram0 /dev/ram1
    count_reads builtin
    for object in /programs/*.bpf.o; do
        name=$(basename "$object" .bpf.o)
        register "$object" "$name" || continue
        use "bpf:$name" "$md"
        count_reads "$name"
        use builtin "$md"
        forget "$name"
    done
    count_reads builtin
    try mdadm --stop /dev/md0
}

count_reads() {
    fio --name=count --filename=/dev/md0 --rw=randread --bs=4k --direct=1 --ioengine=psync \
        --size=32m --number_ios=20000 --io_size=80m --randrepeat=1 --norandommap \
        --output-format=terse --terse-version=3 >/run/fio 2>&1 || fail "fio: $(cat /run/fio)"
    # Microseconds of all reads.
    echo "count,$1,$(awk -F ';' '/^3;/ { print $9 * 1000000 / ($6 / 4) }' /run/fio)"
}

modprobe read_policy replay=1 || fail "no module read_policy"
try modprobe raid1
if [ "$steps" = count ]; then
    run_count
    echo "== all is well"
    poweroff -f
fi
attach_disks
disks="sda sdb"
for object in /programs/*.bpf.o; do
    name=$(basename "$object" .bpf.o)
    if register "$object" "$name"; then
        echo "verifier,$name,accepted"
    else
        reason=$(grep -a -m1 -oE '(BPF program is too large|too complex|unbounded|invalid).*' \
            /run/output || tail -n 1 /run/output)
        echo "verifier,$name,$reason"
    fi
    forget "$name"
done
# Two names of disks.
# shellcheck disable=SC2086
try mdadm --create /dev/md0 --run --force --level=1 --raid-devices=2 --metadata=1.2 \
    --assume-clean --bitmap=none $(printf '/dev/%s ' $disks)
case $steps in *shares*) measure_shares md "$md" /dev/md0 ;; esac
case $steps in *replay*) run_replay ;; esac
case $steps in *swaps*) run_swaps 90 ;; esac
case $steps in *hostile*) run_hostile ;; esac
try mdadm --stop /dev/md0
case $steps in *btrfs*) measure_btrfs ;; esac
dmesg | grep -E 'read_policy: |BUG|WARN|Oops' || true
echo "== all is well"
poweroff -f
