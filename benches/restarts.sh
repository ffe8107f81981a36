#!/usr/bin/env bash
# A mounted filesystem above a volume while the service is killed and started again, by the commands
# of "A filesystem that survives restarts" in docs/serving.md.
#
#   benches/restarts.sh [RESTARTS]
#
# As root, because of the loop device. ext4 and XFS each: fio writes a file and verifies it as it
# goes; meanwhile the service ends RESTARTS times, 10 if not given, by SIGKILL and SIGTERM in turn,
# and starts again after up to 3 s. Passes if fio read what it wrote, also from the disk after the
# filesystem was mounted again, the filesystem is clean, and the mirrors are equal.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
restarts=${1:-10}

need fio:fio nbdfuse:libnbd-bin nbdkit:nbdkit mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs
need_loop_devices
build
cd "$work"
exports=(--export "nbd:unix:$work/socket")
bridge=""
device=""

clean_up() {
    local status=$?
    if [[ -n $mounted ]]; then umount "$mounted" || true; mounted=""; fi
    if [[ -n $device ]]; then losetup --detach "$device" || true; fi
    if [[ -n $bridge ]]; then umount disk || true; fi
    (exit "$status")
    finish
}
trap clean_up EXIT

# A file that is the volume, and whose reads and writes wait while the service is away.
connect() {
    touch disk
    nbdfuse disk --socket-activation \
        nbdkit --filter=retry nbd socket=socket retries=300 retry-delay=1 \
        retry-exponential=no 2>bridge.log &
    bridge=$!
    until [[ -s disk ]]; do sleep 0.1; done
    device=$(losetup --find --show --direct-io=on disk)
}

disconnect() {
    losetup --detach "$device"
    device=""
    umount disk
    wait "$bridge" || true
    bridge=""
}

run_fio() {
    fio --name=verified --filename=filesystem/file --size=64M --direct=1 --ioengine=libaio \
        --iodepth=8 --rw=randwrite --bs=16k --verify=crc32c "$@" >fio.log 2>&1 ||
        { cat fio.log; exit 1; }
}

restart() {
    local signal=$1
    kill -"$signal" "$server"
    wait "$server" 2>/dev/null || true
    sleep "0.$((RANDOM % 10))"
    sleep "$((RANDOM % 3))"
    start_server serve a.img b.img
}

# The filesystem NAME, made by a command of several words and checked by another.
exercise() {
    local name=$1 make=$2 check=$3 began=$SECONDS restart=0 writer
    truncate -s 0 a.img b.img
    truncate -s 1G a.img b.img
    printf 'profile = "raid1"\n[[member]]\npath = "a.img"\n[[member]]\npath = "b.img"\n' >pair.toml
    "$MIRRORBALL" create pair.toml >create.log 2>&1
    start_server serve a.img b.img
    connect
    # shellcheck disable=SC2086
    $make "$device" >make.log 2>&1
    mkdir -p filesystem
    mount "$device" filesystem
    mounted=$work/filesystem
    run_fio --time_based --runtime=$((restarts * 10)) --verify_backlog=64 &
    writer=$!
    while ((restart < restarts)); do
        sleep 3
        kill -0 "$writer" || { cat fio.log; return 1; }
        restart "$( ((restart % 2)) && echo TERM || echo KILL)"
        restart=$((restart + 1))
    done
    wait "$writer"
    run_fio --do_verify=0
    umount "$mounted"
    mount "$device" filesystem
    run_fio --verify_only
    umount "$mounted"
    mounted=""
    # shellcheck disable=SC2086
    $check "$device" >check.log 2>&1 || { cat check.log; return 1; }
    disconnect
    "$MIRRORBALL" ctl --control control scrub start --wait >/dev/null 2>&1
    "$MIRRORBALL" ctl --control control scrub status --check >/dev/null
    stop_server
    echo "$name: $restarts restarts in $((SECONDS - began)) s, no wrong byte, clean, mirrors equal"
}

exercise ext4 "mkfs.ext4 -q" "e2fsck -fn"
exercise XFS "mkfs.xfs -q" "xfs_repair -n"
