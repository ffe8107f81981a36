#!/bin/busybox sh
# What the guest of advise-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh

# Runs a command line after showing it.
run() {
    echo "    # $1"
    sh -c "$1" >/run/output 2>&1 || fail "$1"
}

# Fails unless a file has this text in it.
holds() {
    grep -q "$2" "$1" || fail "$1 is $(cat "$1"), without $2"
    echo "    $1: $(tr '\n' ' ' <"$1")"
}

# Reads that a disk has completed.
reads_of() {
    awk '{ print $1 }' "/sys/block/$1/stat"
}

# Measures a device under a setting: a line for each job, or for the job given.
measure() {
    system=$1
    setting=$2
    device=$3
    for job in ${4:-$jobs}; do
        echo 3 >/proc/sys/vm/drop_caches
        first=$(reads_of "$member1")
        second=$(reads_of "$member2")
        fio --filename="$device" --output-format=terse --terse-version=3 "/jobs/$job.fio" \
            >/run/fio 2>&1 || fail "fio: $(cat /run/fio)"
        first=$(($(reads_of "$member1") - first))
        second=$(($(reads_of "$member2") - second))
        # In fio's terse output: IOPS, bandwidth, and the mean of the total latency.
        figures=$(awk -F ';' '/^3;/ { printf "%s,%s,%.0f", $8, $7, $40 }' /run/fio)
        echo "result,$system,$job,$setting,$figures,$first,$second"
    done
}

# Asks `mirrorball advise` about an array, with the models of its emulated disks in the array file
# that `detect` writes: sets $set and $undo to the commands that it prints, and shows what it says.
advise() {
    system=$1
    array=/run/$system.toml
    try mirrorball detect "$2" --output "$array" --force
    for devid in 1 2; do
        # The first model line after this devid, and the lines of the emulated disk in its place.
        awk -v devid="devid = $devid" -v lines="/models/$array_name-$devid" '
            $0 == devid { inside = 1 }
            inside && /^model = / { while ((getline line <lines) > 0) print line; inside = 0; next }
            { print }' "$array" >/run/corrected
        sed -e 's/^confidence = .*/confidence = "fitted"/' /run/corrected >"$array"
    done
    sed 's/^/file,'"$system"',/' "$array"
    # One job for each word.
    # shellcheck disable=SC2046,SC2086
    (cd /run && mirrorball advise "$array" $(printf '/jobs/%s.fio ' $jobs) --duration 300ms \
        --repeats 2 >/run/advice 2>/run/output) || fail "mirrorball advise $array"
    sed -n '/^You have/,/^Confidence/s/^/    /p' /run/advice
    set=$(sed -n 's/^ *set  *//p' /run/advice)
    undo=$(sed -n 's/^ *undo  *//p' /run/advice)
    [ -n "$set" ] || fail "advise prints no command"
}

# Measures what the host overhead is fitted to: a member alone under the system, as an array or a
# volume of one disk. The second disk at depth 1, and the first with the sequential reader, if that
# is among the jobs.
fit() {
    case $1 in
        "$member2") measure "$2" alone-2 "$3" rand-4k-qd1 ;;
        *) case " $jobs " in *" seq-read "*) measure "$2" alone-1 "$3" seq-read ;; esac ;;
    esac
}

create_md() {
    try mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=2 --assume-clean \
        --bitmap=internal "$@"
}

assemble_md() {
    try mdadm --stop /dev/md0
    try mdadm --assemble /dev/md0 /dev/sda /dev/sdb
}

md() {
    echo "== md RAID1: a hard disk in slot 0, an SSD in slot 1"
    state=/sys/block/md0/md/dev-sda/state
    for disk in sda sdb; do
        try mdadm --create /dev/md0 --run --metadata=1.2 --level=1 --raid-devices=1 --force \
            /dev/$disk
        fit $disk md /dev/md0
        try mdadm --stop /dev/md0
        try mdadm --zero-superblock /dev/$disk
    done
    create_md /dev/sda /dev/sdb
    measure md before /dev/md0
    advise md /dev/md0
    run "$set"
    holds $state write_mostly
    measure md write-mostly /dev/md0
    echo "    it stays when the array is stopped and assembled:"
    assemble_md
    holds $state write_mostly
    run "$undo"
    measure md undone /dev/md0
    assemble_md
    if grep -q write_mostly $state; then fail "undone, and back after a restart"; fi
    echo "    undone, it stays away: $state: $(cat $state)"
    echo "== md RAID1: the flag by mdadm, for a member that is added again"
    run "mdadm /dev/md0 --fail /dev/sda"
    run "mdadm /dev/md0 --remove /dev/sda"
    run "mdadm /dev/md0 --re-add --write-mostly /dev/sda"
    sleep 2
    holds $state write_mostly
    assemble_md
    holds $state write_mostly
    grep '^md0' /proc/mdstat | sed 's/^/    /'
    run "mdadm /dev/md0 --fail /dev/sda"
    run "mdadm /dev/md0 --remove /dev/sda"
    run "mdadm /dev/md0 --re-add --readwrite /dev/sda"
    sleep 2
    echo "    after --re-add --readwrite: $state: $(cat $state)"
    try mdadm --stop /dev/md0
    echo "== md RAID1: the SSD in slot 0"
    for disk in sda sdb; do try mdadm --zero-superblock /dev/$disk; done
    create_md /dev/sdb /dev/sda
    measure md order /dev/md0
    try mdadm --stop /dev/md0
    echo "== md RAID1: the flag by mdadm, for a new array"
    for disk in sda sdb; do try mdadm --zero-superblock /dev/$disk; done
    create_md /dev/sdb --write-mostly /dev/sda
    holds $state write_mostly
    try mdadm --stop /dev/md0
    for disk in sda sdb; do try mdadm --zero-superblock /dev/$disk; done
}

lvm_raid1() {
    echo "== LVM raid1: a hard disk as image 0, an SSD as image 1"
    try pvcreate -ff -y /dev/sda /dev/sdb
    try vgcreate vg /dev/sda /dev/sdb
    for disk in sda sdb; do
        try lvcreate -y -Wn -Zn -l 99%PVS -n alone vg /dev/$disk
        fit $disk lvm /dev/vg/alone
        try lvremove -y vg/alone
    done
    try lvcreate -y -Wn -Zn --type raid1 -m 1 --nosync -l 99%FREE -n lv vg /dev/sda /dev/sdb
    measure lvm before /dev/vg/lv
    advise lvm /dev/vg/lv
    run "$set"
    lvs -a --noheadings -o name,attr,devices vg | sed 's/^/    /'
    measure lvm write-mostly /dev/vg/lv
    echo "    it stays when the volume group is deactivated and activated:"
    try vgchange -an vg
    try vgchange -ay vg
    dmsetup table vg-lv | sed 's/^/    /'
    dmsetup table vg-lv | grep -q "write_mostly 0" || fail "the flag is gone"
    run "$undo"
    dmsetup table vg-lv | grep -q "write_mostly" && fail "the flag is still there"
    measure lvm undone /dev/vg/lv
    try vgchange -an vg
}

nvme() {
    echo "== NVMe multipath: paths of 2 ms and 6 ms"
    bind_paths
    namespace=$(cd /sys/block && echo nvme?n1)
    subsystem=/sys/class/nvme-subsystem/nvme-subsys${namespace#nvme}
    subsystem=${subsystem%n1}
    # The paths are hidden, and count their reads under their own names.
    # shellcheck disable=SC2046
    set -- $(cd /sys/block && echo nvme*c*n1)
    [ $# = 2 ] || fail "$# paths: $*"
    member1=$1
    member2=$2
    holds "$subsystem/iopolicy" numa
    measure nvme numa "/dev/$namespace"
    run "echo round-robin >$subsystem/iopolicy"
    measure nvme round-robin "/dev/$namespace"
    run "echo numa >$subsystem/iopolicy"
    advise nvme "/dev/$namespace"
    run "$set"
    holds "$subsystem/iopolicy" queue-depth
    measure nvme queue-depth "/dev/$namespace"
    run "$undo"
    holds "$subsystem/iopolicy" numa
    measure nvme undone "/dev/$namespace"
    echo "    the parameter is for subsystems that are found later:"
    run "echo queue-depth >/sys/module/nvme_core/parameters/iopolicy"
    holds "$subsystem/iopolicy" numa
    bind_paths
    holds "$subsystem/iopolicy" queue-depth
}

# Attaches both disks, and shows what the kernel says of them.
attach_members() {
    attach_disks
    member1=sda
    member2=sdb
    for disk in $disks; do
        echo "    $disk: $(cat "/sys/block/$disk/device/model")," \
            "rotational $(cat "/sys/block/$disk/queue/rotational")"
    done
}

jobs=$(sed -n 's/.*jobs=\([^ ]*\).*/\1/p' /proc/cmdline | tr , ' ')
array_name=$(sed -n 's/.*array=\([^ ]*\).*/\1/p' /proc/cmdline)
systems=,$(sed -n 's/.*systems=\([^ ]*\).*/\1/p' /proc/cmdline),
case $systems in *,md,* | *,lvm,*)
    attach_members
    for module in raid1 dm_raid; do try modprobe $module; done ;;
esac
case $systems in *,md,*) md ;; esac
case $systems in *,lvm,*) lvm_raid1 ;; esac
case $systems in *,nvme,*)
    modprobe nvme
    nvme ;;
esac
echo "== all is well"
poweroff -f
