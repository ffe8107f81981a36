#!/bin/busybox sh
# What the guest of bench-kill-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh

# The flags of both members.
knobs() {
    for disk in sda sdb; do echo "$disk: $(cat /sys/block/md0/md/dev-$disk/state)"; done
}

# Starts `bench`, and waits until a flag is another than before.
start_bench() {
    rm -rf /run/measured
    mirrorball bench /dev/md0 rand-4k-qd1 --read-device --rounds 2 --settle 1s --measure 5s \
        --lateness-max 1s -o /run/measured >/run/output 2>&1 &
    bench=$!
    while [ "$(knobs)" = "$before" ]; do
        kill -0 $bench 2>/dev/null || fail "bench ended before it changed a flag"
        usleep 100000
    done
    echo "    bench has set:"
    knobs | sed 's/^/        /'
}

# Fails unless the flags are as before.
expect_before() {
    echo "    $1:"
    knobs | sed 's/^/        /'
    [ "$(knobs)" = "$before" ] || fail "$1: the flags are not as before"
}

restore() {
    [ "$(knobs)" != "$before" ] || fail "the flags were restored without --restore"
    echo "    left behind:"
    knobs | sed 's/^/        /'
    mirrorball bench --restore >/run/output 2>&1 || fail "bench --restore"
    sed 's/^/    # bench --restore: /' /run/output
    expect_before "after bench --restore"
    mirrorball bench --restore >/run/output 2>&1 || fail "bench --restore again"
    sed 's/^/    # again: /' /run/output
}

# Ends every process of the program with SIGKILL: bench, its watchdog, and then fio.
kill_all() {
    # Process numbers.
    # shellcheck disable=SC2046
    kill -KILL $(pidof mirrorball)
    wait
    killall -KILL fio 2>/dev/null
    sleep 2
}

kill_bench() {
    before=$(knobs)
    echo "== bench alone is killed: its watchdog restores"
    start_bench
    kill -KILL $bench
    wait
    sleep 3
    expect_before "3 s after SIGKILL"
    killall -KILL fio 2>/dev/null
    echo "== bench and its watchdog are killed"
    start_bench
    kill_all
    restore
    echo "== bench and its watchdog are killed, and the array is stopped and assembled"
    start_bench
    kill_all
    try mdadm --stop /dev/md0
    try mdadm --assemble /dev/md0 /dev/sda /dev/sdb
    restore
    echo "== with a flag that the owner has set"
    echo writemostly >/sys/block/md0/md/dev-sda/state
    before=$(knobs)
    start_bench
    kill_all
    restore
}

attach_disks
try modprobe raid1
try mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=2 --assume-clean \
    --bitmap=none /dev/sda /dev/sdb
kill_bench
echo "== all is well"
poweroff -f
