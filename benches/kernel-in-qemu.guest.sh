#!/bin/busybox sh
# What the guest of kernel-in-qemu does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh

# A word of the kernel's command line.
word() {
    sed -n "s/.*\\b$1=\\([^ ]*\\).*/\\1/p" /proc/cmdline
}

# A field of the stat file of each member: 1 for completed reads, 5 for completed writes.
counts() {
    for disk in $disks; do awk -v field="$1" '{ print $field }' "/sys/block/$disk/stat"; done
}

# The differences of two such lists, with `;` between them.
differences() {
    # Numbers.
    # shellcheck disable=SC2086
    printf '%s\n' $2 | paste -d ' ' /run/counts - | awk '{ printf "%s%d", sep, $2 - $1; sep = ";" }'
}

# Runs a job of fio in the background: by a process of this parity, where one is given, and with a
# seed. Process numbers follow each other, and every second start is one number further.
start_fio() {
    attempt=0
    while :; do
        attempt=$((attempt + 1))
        # With randrepeat, fio's default, the offsets do not depend on the seed.
        fio --filename="$target" --randrepeat=0 --randseed="$3" --output-format=terse \
            --terse-version=3 --group_reporting "/jobs/$1.fio" >/run/fio 2>&1 &
        fio=$!
        if [ -z "$2" ]; then return; fi
        child=""
        while [ -z "$child" ]; do
            kill -0 $fio 2>/dev/null || fail "fio: $(cat /run/fio)"
            read -r child _ <"/proc/$fio/task/$fio/children"
        done
        if [ $((child % 2)) = "$2" ]; then return; fi
        kill -KILL $fio "$child"
        wait $fio
        if [ $((attempt % 2)) = 1 ]; then
            true &
            wait $!
        fi
    done
}

# Measures a job, and prints what it had and what the members served.
measure() {
    case $1 in
        pid-even) parity=0 ;;
        pid-odd) parity=1 ;;
        *) parity="" ;;
    esac
    echo 3 >/proc/sys/vm/drop_caches
    echo "begin,$1,$2"
    sleep 0.5
    start_fio "$2" "$parity" "$3"
    reads=$(counts 1)
    writes=$(counts 5)
    wait "$fio" || fail "fio: $(cat /run/fio)"
    # In fio's terse output: IOPS of reads and of writes.
    figures=$(awk -F ';' '/^3;/ { printf "%s,%s", $8, $49 }' /run/fio)
    echo "$reads" >/run/counts
    reads=$(differences x "$(counts 1)")
    echo "$writes" >/run/counts
    writes=$(differences x "$(counts 5)")
    echo "result,$2,$1,$3,$figures,$reads,$writes"
}

# Each job under each setting: there and back, so that a drift hits all alike.
measure_all() {
    for job in $jobs; do
        backwards=""
        for setting in $settings; do backwards="$setting $backwards"; done
        round=1
        while [ "$round" -le "$rounds" ]; do
            order=$settings
            if [ $((round % 2)) = 0 ]; then order=$backwards; fi
            measure_paths
            for setting in $order; do
                "set_$system" "$setting"
                measure "$setting" "$job" "$round"
            done
            measure_paths
            round=$((round + 1))
        done
    done
}

# The path that a request takes around its disk: the first member alone, under the same system.
measure_alone() {
    for round in $(seq 1 "$rounds"); do
        for job in $(cd /jobs && ls alone-*.fio); do measure alone "${job%.fio}" "$round"; done
    done
}

# The same on the path disks, by the jobs that are for this job; nothing without path disks.
measure_paths() {
    array=$target
    number=0
    for disk in $path_disks; do
        number=$((number + 1))
        target=/dev/md$number
        us=$(echo "$path_times" | cut -d ' ' -f $number)
        for path in $(cd /jobs && ls "path-$job-$us"-*.fio); do
            measure alone "${path%.fio}" "$round"
        done
    done
    target=$array
}

# Members have the settings `none` and `write-mostly:` with their numbers; `+` is between numbers.
write_mostly_settings() {
    echo none
    # shellcheck disable=SC2086
    seq 1 $# | sed 's/^/write-mostly:/'
}

# True if the setting names this member.
is_write_mostly() {
    case "+${1#write-mostly:}+" in *"+$2+"*) return 0 ;; *) return 1 ;; esac
}

# An array with this name.
create_md() {
    name=$1
    shift
    try mdadm --create "$name" --run --force --metadata=1.2 --assume-clean --bitmap=none "$@"
}

stop_md() {
    try mdadm --stop "$1"
    shift
    for disk in "$@"; do try mdadm --zero-superblock "$disk"; done
}

set_md() {
    # raid10 has no such setting.
    [ "$level" = 1 ] || return
    number=0
    for disk in $disks; do
        number=$((number + 1))
        flag=-writemostly
        if is_write_mostly "$1" $number; then flag=writemostly; fi
        echo $flag >"/sys/block/md0/md/dev-$disk/state" || fail "$flag of $disk"
    done
}

# The layout of a raid10 is in the name of the system: md:n2, md:f2 or md:o2; raid1 is md.
run_md() {
    target=/dev/md0
    number=0
    for disk in $path_disks; do
        number=$((number + 1))
        create_md /dev/md$number --level=1 --raid-devices=1 "/dev/$disk"
    done
    if [ -z "$path_disks" ]; then
        create_md $target --level=1 --raid-devices=1 "$1"
        measure_alone
        stop_md $target "$1"
    fi
    if [ "$level" = 1 ]; then
        create_md $target --level=1 --raid-devices=$# "$@"
        settings=${settings:-$(write_mostly_settings "$@")}
    else
        create_md $target --level=10 --layout="$layout" --chunk=512 --raid-devices=$# "$@"
        settings=none
    fi
    measure_all
    stop_md $target "$@"
}

# Clears flags first: LVM refuses to have all images write-mostly even for a moment.
set_lvm() {
    for flag in n y; do
        number=0
        for disk in $disks; do
            number=$((number + 1))
            wanted=n
            if is_write_mostly "$1" $number; then wanted=y; fi
            [ $wanted = $flag ] || continue
            try lvchange -y --writemostly "/dev/$disk:$flag" vg/lv
        done
    done
}

run_lvm() {
    try pvcreate -ff -y "$@"
    try vgcreate vg "$@"
    # Both copies on the first member: `linear` costs an emulated CPU less than raid1.
    try lvcreate -y -Wn -Zn --type raid1 -m 1 --nosync --alloc anywhere -l 40%PVS -n alone vg "$1"
    target=/dev/vg/alone
    measure_alone
    try lvremove -y vg/alone
    try lvcreate -y -Wn -Zn --type raid1 -m $(($# - 1)) --nosync -l 99%FREE -n lv vg "$@"
    target=/dev/vg/lv
    settings=${settings:-$(write_mostly_settings "$@")}
    measure_all
    try vgchange -an vg
}

# The table of a multipath device over these paths with a selector.
multipath_table() {
    selector=$1
    shift
    case $selector in
        service-time) arguments="2 1 1" ;;
        io-affinity) arguments="1 3" ;;
        *) arguments="1 1" ;;
    esac
    count=${arguments%% *}
    table="0 $(cat "/sys/block/${disks%% *}/size") multipath 0 0 1 1 $selector 0 $# $count"
    for disk in "$@"; do table="$table $(cat "/sys/block/${disk#/dev/}/dev") ${arguments#* }"; done
    echo "$table"
}

set_dm() {
    # Names of disks.
    # shellcheck disable=SC2046,SC2086
    try dmsetup load mp --table "$(multipath_table "$1" $(printf '/dev/%s ' $disks))"
    try dmsetup suspend mp
    try dmsetup resume mp
}

run_dm() {
    try modprobe dm_multipath
    found=""
    for selector in round-robin queue-length service-time historical-service-time io-affinity; do
        if modprobe "dm-$selector" 2>/dev/null; then found="$found $selector"; fi
    done
    settings=${settings:-$found}
    try dmsetup create mp --table "$(multipath_table round-robin "$1")"
    try dmsetup mknodes
    target=/dev/mapper/mp
    measure_alone
    measure_all
    try dmsetup remove mp
}

# The table of a mirror of these devices and their first sectors, with this number of sectors.
mirror_table() {
    sectors=$1
    shift
    echo "0 $sectors mirror core 2 1024 nosync $(($# / 2)) $*"
}

# The target needs two devices at least, so the first disk alone is the mirror of its two halves.
run_dm_mirror() {
    try modprobe dm_mirror
    sectors=$(cat "/sys/block/${disks%% *}/size")
    half=$((sectors / 2))
    try dmsetup create alone --table "$(mirror_table $half "$1" 0 "$1" $half)"
    try dmsetup mknodes
    target=/dev/mapper/alone
    measure_alone
    try dmsetup remove alone
    # Names of disks.
    # shellcheck disable=SC2046,SC2086
    try dmsetup create mirror --table "$(mirror_table $sectors $(printf '/dev/%s 0 ' $disks))"
    try dmsetup mknodes
    target=/dev/mapper/mirror
    settings=none
    measure_all
    try dmsetup remove mirror
}

# There is nothing to set.
set_dm_mirror() {
    return 0
}

# Binds a controller of NVMe to its driver, and waits for its path.
attach_path() {
    echo "$1" >/sys/bus/pci/drivers/nvme/bind || fail "bind $1"
    tries=0
    until path=$(cd "/sys/bus/pci/devices/$1" && ls -d nvme/nvme*/nvme*c*n* 2>/dev/null); do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || fail "$1 has no path: is nvme_core.multipath Y?"
        sleep 0.1
    done
    path=${path##*/}
    disks="${disks:+$disks }$path"
    echo none >"/sys/block/$path/queue/scheduler"
    echo 2 >"/sys/block/$path/queue/nomerges"
}

set_nvme() {
    echo "$1" >"$subsystem/iopolicy" || fail "$subsystem/iopolicy refuses $1"
}

# Controllers are bound one after the other, so that paths have the order of the members; the first
# one is measured before it has company. The path through the first one is at PCI slot 11.
run_nvme() {
    echo 0 >/sys/bus/pci/drivers_autoprobe
    try modprobe nvme
    # What a driver that is built in has bound itself.
    for address in /sys/bus/pci/drivers/nvme/0000:*; do
        [ -e "$address" ] && echo "${address##*/}" >/sys/bus/pci/drivers/nvme/unbind
    done
    attach_path 0000:00:11.0
    for subsystem in /sys/class/nvme-subsystem/nvme-subsys*; do :; done
    target=$(cd "$subsystem" && ls -d nvme*n*)
    target=/dev/$target
    measure_alone
    for number in $(seq 2 "$(word members)"); do attach_path "0000:00:1$number.0"; done
    if [ -z "$settings" ]; then
        for name in numa round-robin queue-depth; do
            if echo $name >"$subsystem/iopolicy" 2>/dev/null; then settings="$settings $name"; fi
        done
    fi
    measure_all
}

# Names of the policies that this kernel offers; `pid` for each parity of a process.
btrfs_settings() {
    cat /sys/fs/btrfs/*-*/read_policy | tr -d '[]' | tr ' ' '\n' | while read -r policy; do
        case $policy in
            pid) echo "pid-even pid-odd" ;;
            devid*)
                # shellcheck disable=SC2086
                seq 1 $# | sed 's/^/devid:/' ;;
            round-robin*) echo "round-robin" ;;
            ?*) echo "$policy" ;;
        esac
    done
}

set_btrfs() {
    case $1 in
        pid-*) policy=pid ;;
        *) policy=$1 ;;
    esac
    for file in /sys/fs/btrfs/*-*/read_policy; do
        echo "$policy" >"$file" 2>/dev/null || fail "$file refuses $policy"
    done
}

mount_btrfs() {
    try mkfs.btrfs -q -K -f "$@"
    try btrfs device scan
    mkdir -p /run/filesystem
    for disk in "$@"; do :; done
    try mount -t btrfs -o nodatacow "$disk" /run/filesystem
    target=/run/filesystem/file
    try dd if=/dev/zero of=$target bs=1M count="$(word size)" conv=fsync
}

run_btrfs() {
    try modprobe btrfs
    mount_btrfs -d single -m single "$1"
    measure_alone
    try umount /run/filesystem
    mount_btrfs -d raid1 -m raid1 "$@"
    settings=${settings:-$(btrfs_settings "$@" | tr '\n' ' ')}
    measure_all
    btrfs inspect-internal dump-tree -t chunk "$1" | grep -A 12 'CHUNK_ITEM' |
        grep -E 'length|stripe [0-9]' | sed 's/^/chunk /'
    try umount /run/filesystem
}

system=$(word system)
jobs=$(word jobs | tr , ' ')
settings=$(word settings | tr , ' ')
rounds=$(word rounds)
level=1
case $system in
    md:*)
        level=10
        layout=${system#md:}
        system=md ;;
    dm-mirror) system=dm_mirror ;;
esac
disks=""
if [ "$system" != nvme ]; then attach_disks; fi
# Merged requests would take a delay as long as one, which the simulation does not follow.
for disk in $disks; do
    echo none >"/sys/block/$disk/queue/scheduler"
    echo 2 >"/sys/block/$disk/queue/nomerges"
done
# The last disks are no members, but take these times for a request.
path_times=$(word paths | tr , ' ') path_disks=""
for _ in $path_times; do
    path_disks="${disks##* } $path_disks"
    disks=${disks% *}
done
for module in raid1 raid10 dm_raid; do modprobe $module 2>/dev/null; done
# Names of disks.
# shellcheck disable=SC2046,SC2086
"run_$system" $(printf '/dev/%s ' $disks)
echo "== all is well"
poweroff -f
