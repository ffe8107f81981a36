#!/bin/busybox sh
# What the guest of read-policy-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh
mount -t bpf bpf /sys/fs/bpf
# Only what is urgent goes to the console.
dmesg -n 1

# A word of the kernel's command line.
word() {
    sed -n "s/.*\\b$1=\\([^ ]*\\).*/\\1/p" /proc/cmdline
}

steps=$(word steps)
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
    if grep -aq "unsupported member" /run/output; then
        dmesg | sed -n "s/.*read_policy: .* refused: //p" | tail -n 1
        return
    fi
    reasons="infinite loop|cannot use helper|not allowed|cannot write|unbounded"
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

# Seconds since the emulation of the disks was started.
emulated() { echo $(($(cut -d . -f 1 /proc/uptime) + offset)); }

# Waits until this second of a cycle. The second of the equal disks is 8 times as slow in seconds 10
# to 20 of every 40.
until_second() {
    until [ $(($(emulated) % cycle)) = "$1" ]; do usleep 50000; done
}

# The randrw of the thread on btrfs' balancing: reads a second, and the share of the first member in
# percent, before, while and after a disk is slow: SYSTEM TARGET POLICY. fio takes seconds to begin.
run_randrw() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    until_second $((cycle - 10))
    fio --name=iops-test-job --filename="$2" --size=256m --direct=1 --rw=randrw --bs=4k \
        --ioengine=libaio --iodepth=256 --numjobs=4 --runtime=$((${ends##* } + 10)) --time_based \
        --randrepeat=0 --group_reporting --output-format=terse --terse-version=3 >/run/fio 2>&1 &
    fio=$!
    line="randrw,$pair,$1,$3"
    from=2
    for until in $ends; do
        until_second $from
        first=$(reads_of "$one")
        other=$(reads_of "$two")
        until_second "$until"
        first=$(($(reads_of "$one") - first))
        other=$(($(reads_of "$two") - other))
        [ $((first + other)) != 0 ] || fail "no reads until second $until"
        line="$line,$(((first + other) / (until - from))),$((100 * first / (first + other + 1)))"
        from=$until
    done
    wait $fio || fail "fio: $(cat /run/fio)"
    echo "$line"
}

# The defragmentation of the thread, of 512 MiB, by a process of this parity: POLICY PARITY. Prints
# the time, and the reads of each member. A disk that becomes slow does so 2 s after the start.
run_defrag() {
    rm -f /mnt/defrag
    try dd if=/dev/zero of=/mnt/defrag bs=1M count=512 conv=fsync
    sync
    echo 3 >/proc/sys/vm/drop_caches
    [ "$pair" = unequal ] || until_second 8
    first=$(reads_of "$one")
    other=$(reads_of "$two")
    began=$(tr -d . </proc/uptime | cut -d ' ' -f 1)
    # Processes follow each other in number, so the parity is there at the second start.
    until sh -c '[ $(($$ % 2)) = "$0" ] && exec "$@"' "$2" btrfs filesystem defrag -f -c \
        /mnt/defrag >/run/output 2>&1; do
        [ ! -s /run/output ] || fail defrag
    done
    ended=$(tr -d . </proc/uptime | cut -d ' ' -f 1)
    echo "defrag,$pair,$1,$((ended - began)),$(($(reads_of "$one") - first)),$((
        $(reads_of "$two") - other))"
}

# Runs a command for each policy, whose name follows its words: FOLDER COMMAND...
for_policies() {
    folder=$1
    shift
    for policy in btrfs-round-robin latency-rr mirrorball-auto; do
        register "/programs/$policy.bpf.o" $policy || fail "$policy is refused"
        use "bpf:$policy" "$folder"
        "$@" $policy
        grep -q "^detached no" "$folder/statistics" || cat "$folder/statistics"
        use builtin "$folder"
        forget $policy
    done
}

defrag_by_even() { run_defrag "$1" 0; }

# Unequal members, and equal ones of which one becomes slow, against the kernel's own rules.
measure_unequal() {
    offset=$(($(date +%s) - $(word started) - $(cut -d . -f 1 /proc/uptime)))
    mkdir -p /mnt
    try modprobe btrfs
    for pair in slowing unequal; do
        case $pair in
            slowing) one=sdc two=sdd cycle=40 ends="10 20 30" ;;
            unequal) one=sda two=sdb cycle=24 ends="10" ;;
        esac
        try mdadm --create /dev/md0 --run --force --level=1 --raid-devices=2 --metadata=1.2 \
            --assume-clean --bitmap=none "/dev/$one" "/dev/$two"
        run_randrw md /dev/md0 builtin
        for_policies "$md" run_randrw md /dev/md0
        try mdadm --stop /dev/md0
        try mkfs.btrfs --force --data raid1 --metadata raid1 "/dev/$one" "/dev/$two"
        try btrfs device scan
        try mount "/dev/$one" /mnt
        try dd if=/dev/zero of=/mnt/foo bs=1M count=256 conv=fsync
        btrfs=$(echo /sys/kernel/read_policy/*-*)
        run_randrw btrfs /mnt/foo builtin
        for_policies "$btrfs" run_randrw btrfs /mnt/foo
        run_defrag "builtin, even process" 0
        run_defrag "builtin, odd process" 1
        for_policies "$btrfs" defrag_by_even
        try umount /mnt
    done
}

# mdadm's own tests of raid1: under the kernel's module, under ours, and under ours while an array
# of the test has a program.
run_tests() {
    mkdir -p /var/tmp /run/udev /usr
    ln -s /bin /usr/sbin
    ln -s /bin /usr/bin
    hostname guest
    echo root:x:0:0::/:/bin/sh >/etc/passwd
    try modprobe loop max_loop=16
    try systemd-udevd --daemon
    register /programs/mirrorball-auto.bpf.o auto || fail "auto is refused"
    for kind in stock edited program; do
        try rmmod raid1
        if [ $kind = stock ]; then try insmod /stock/raid1.ko; else try modprobe raid1; fi
        if [ $kind = program ]; then use_everywhere & fi
        (cd /mdadm && bash ./test --raidtype=raid1 --keep-going) 2>&1 </dev/null | tee /run/tests
        sed -n "s#^.*tests/\([^. ]*\)\.\.\..*\(succeeded\|FAILED\|skipping\).*#\1,\2#p" /run/tests |
            sed "s/^/tests,$kind,/"
    done
    echo "the program decided up to $(sort -n /run/uses | tail -n 1) reads of an array," \
        "seen in use $(wc -l </run/uses) times"
}

# Gives each array that appears the program, which serves one of them, and notes its decisions.
use_everywhere() {
    while usleep 100000; do
        for folder in /sys/kernel/read_policy/md*; do
            echo bpf:mirrorball-auto >"$folder/policy"
            grep -q "\[bpf" "$folder/policy" && statistic decisions "$folder"
        done
    done >/run/uses 2>/dev/null
}

# An emulated CPU that others use, too, takes much longer for a call than a real one.
case $steps in unequal | tests) budget=900 ;; *) budget=100 ;; esac
modprobe read_policy replay=1 budget_ms=$budget || fail "no module read_policy"
try modprobe raid1
end() {
    dmesg | grep -E 'read_policy: |BUG|WARN|Oops' || true
    echo "== all is well"
    poweroff -f
}
if [ "$steps" = count ]; then
    run_count
    end
elif [ "$steps" = tests ]; then
    run_tests
    end
fi
attach_disks
if [ "$steps" = unequal ]; then
    measure_unequal
    end
fi
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
case $steps in *shell*)
    echo "programs are in /programs, the array in $md; exit ends the guest"
    setsid cttyhack sh
    ;;
esac
case $steps in *shares*) measure_shares md "$md" /dev/md0 ;; esac
case $steps in *replay*) run_replay ;; esac
case $steps in *swaps*) run_swaps 90 ;; esac
case $steps in *hostile*) run_hostile ;; esac
try mdadm --stop /dev/md0
case $steps in *btrfs*) measure_btrfs ;; esac
end
