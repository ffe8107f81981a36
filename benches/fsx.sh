#!/usr/bin/env bash
# fsx on a mirrored volume with checksums: on its FUSE file, on the loop device above that, and on
# ext4 on the loop device. A member is replaced during each run.
#
#   benches/fsx.sh [OPERATIONS]
#
# As root, because of the loop device. FSX names the program (`cargo install fsx`, version 0.3).
# Passes if each read returns what was written, the mirrors are equal at the end, and the
# filesystem is clean.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
operations=${1:-500000}
fsx=${FSX:-fsx}

need "$fsx:fsx" mkfs.ext4:e2fsprogs
need_loop_devices
need_filesystem ext4
build

# Whole sectors in place: a volume does not change its size.
cat >"$work/blocks.toml" <<'END'
blockmode = true
nosizechecks = true
flen = 16777216
[opsize]
max = 65536
align = 4096
[weights]
close_open = 0
truncate = 0
mapread = 0
mapwrite = 0
read = 10
write = 10
fsync = 1
END
cat >"$work/files.toml" <<'END'
flen = 1048576
nomsyncafterwrite = true
[weights]
close_open = 1
truncate = 5
mapread = 10
mapwrite = 10
read = 10
write = 10
fsync = 0.1
posix_fallocate = 2
punch_hole = 5
END

cd "$work"
truncate -s 512M a.img b.img
printf 'profile = "raid1"\n[[member]]\npath = "a.img"\n[[member]]\npath = "b.img"\n' >pair.toml
"$MIRRORBALL" create --checksums pair.toml 2>create.log
first=a.img
second=b.img

# Runs fsx on a path while the second member is copied to a new file, which takes its place.
exercise() {
    local name=$1 config=$2 path=$3 new=$4 began=$SECONDS
    truncate -s 512M "$new"
    "$fsx" -q -N "$operations" -S 47 -f "$config" -P "$work" "$path" >"$name.log" 2>&1 &
    local exerciser=$!
    "$MIRRORBALL" ctl --control control members replace 2 "$new" --rate 8M --wait >/dev/null 2>&1
    wait "$exerciser" || { tail -30 "$name.log"; return 1; }
    "$MIRRORBALL" ctl --control control scrub start --wait >/dev/null 2>&1
    "$MIRRORBALL" ctl --control control scrub status --check >/dev/null
    second=$new
    echo "$name: $operations operations in $((SECONDS - began)) s, no wrong byte, mirrors equal"
}

start_server serve "$first" "$second"
exercise "FUSE file" blocks.toml mount/volume c.img
stop_server
start_server serve "$first" "$second" --loop
device=$(devices)
exercise "loop device" blocks.toml "$device" d.img
mkfs.ext4 -q "$device"
mkdir filesystem
mount "$device" filesystem
mounted=$work/filesystem
exercise "ext4 on the loop device" files.toml filesystem/file e.img
umount "$mounted"
mounted=""
e2fsck -fn "$device" >repair.log 2>&1 || { cat repair.log; exit 1; }
echo "e2fsck: clean"
stop_server
