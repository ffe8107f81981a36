#!/bin/busybox sh
# What the guest of record-in-qemu.sh does, as its first and only process.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh
mkdir -p /run/trees /srv/data

# Records a tree of that name, with the first device of its stack, or none; then notes.
record() {
    tree=$1
    export RECORD_DEVICES="$2"
    shift 2
    try record-sysroot.sh "/run/trees/$tree" \
        "A guest in QEMU on disks that are sparse files. Names, sizes and rotation rates of the" \
        "disks are set by options of QEMU (virtio-scsi, product=, rotation_rate=)." \
        "$@"
    echo "    $tree: $(find "/run/trees/$tree" ! -type d | wc -l) files and links"
}

# True if the tree is asked for.
wanted() {
    case $trees in *,$1,* | ,,) return 0 ;; *) return 1 ;; esac
}

forget_disks() {
    for disk in sda sdb sdc sdd sde sdf; do
        dd if=/dev/zero of=/dev/$disk bs=1M count=16 2>/dev/null
        blockdev --rereadpt /dev/$disk 2>/dev/null
    done
}

# Makes a file system on a device, and mounts it at /srv/data.
mount_xfs() {
    try mkfs.xfs -q -K -f -l size=64m "$1"
    try mount -t xfs "$1" /srv/data
}

stop_md() {
    umount /srv/data 2>/dev/null
    try mdadm --stop /dev/md0
    forget_disks
}

create_md() {
    try mdadm --create /dev/md0 --run --metadata=1.2 --homehost=nas --name=0 "$@"
}

md_raid1_hdd_ssd() {
    create_md --level=1 --raid-devices=2 --assume-clean --bitmap=internal /dev/sda /dev/sdb
    mount_xfs /dev/md0
    record md-raid1-hdd-ssd "md0" \
        "md RAID1 of a hard disk (slot 0) and an SSD, in sync, XFS mounted at /srv/data." \
        "mdadm --create /dev/md0 --level=1 --raid-devices=2 --assume-clean --bitmap=internal" \
        "    /dev/sda /dev/sdb"
    echo writemostly >/sys/block/md0/md/dev-sda/state
    record md-raid1-writemostly "md0" \
        "The array of md-raid1-hdd-ssd after: echo writemostly >/sys/block/md0/md/dev-sda/state"
    stop_md
}

md_raid1_degraded() {
    create_md --level=1 --raid-devices=2 --assume-clean --bitmap=internal /dev/sda /dev/sdb
    mount_xfs /dev/md0
    try mdadm /dev/md0 --fail /dev/sda
    record md-raid1-degraded "md0 sda" \
        "md RAID1 of two members, one of which failed and is still in the array." \
        "mdadm --create as in md-raid1-hdd-ssd; mdadm /dev/md0 --fail /dev/sda"
    stop_md
}

md_raid1_resyncing() {
    echo 4000 >/proc/sys/dev/raid/speed_limit_max
    create_md --level=1 --raid-devices=2 --bitmap=internal /dev/sda /dev/sdb
    sleep 5
    record md-raid1-resyncing "md0" \
        "md RAID1 in its first resync, not mounted." \
        "mdadm --create /dev/md0 --level=1 --raid-devices=2 --bitmap=internal /dev/sda /dev/sdb" \
        "with /proc/sys/dev/raid/speed_limit_max at 4000"
    try mdadm --stop /dev/md0
    forget_disks
    create_md --level=1 --raid-devices=2 --assume-clean --bitmap=internal /dev/sda /dev/sdb
    mount_xfs /dev/md0
    echo check >/sys/block/md0/md/sync_action
    sleep 5
    record md-raid1-checking "md0" \
        "md RAID1 while it is checked, mounted." \
        "mdadm --create as in md-raid1-hdd-ssd; echo check >/sys/block/md0/md/sync_action" \
        "with /proc/sys/dev/raid/speed_limit_max at 4000"
    echo idle >/sys/block/md0/md/sync_action
    echo 200000 >/proc/sys/dev/raid/speed_limit_max
    stop_md
}

md_raid10() {
    create_md --level=10 --layout=n2 --chunk=512 --raid-devices=4 --assume-clean \
        --bitmap=internal /dev/sdc /dev/sdd /dev/sde /dev/sdf
    mount_xfs /dev/md0
    record md-raid10 "md0" \
        "md RAID10, near 2, of four disks (one of another model), XFS mounted at /srv/data." \
        "mdadm --create /dev/md0 --level=10 --layout=n2 --chunk=512 --raid-devices=4" \
        "    --assume-clean --bitmap=internal /dev/sdc /dev/sdd /dev/sde /dev/sdf"
    stop_md
    create_md --level=10 --layout=f2 --chunk=512 --raid-devices=2 --assume-clean \
        --bitmap=none /dev/sdc /dev/sdd
    record md-raid10-far "md0" \
        "md RAID10, far 2, of two disks, not mounted." \
        "mdadm --create /dev/md0 --level=10 --layout=f2 --chunk=512 --raid-devices=2" \
        "    --assume-clean --bitmap=none /dev/sdc /dev/sdd"
    stop_md
}

lvm_raid1() {
    try pvcreate -ff -y /dev/sda /dev/sdb
    try vgcreate vg0 /dev/sda /dev/sdb
    try lvcreate -y -Wn --type raid1 -m 1 --nosync -L 500G -n data vg0 /dev/sda /dev/sdb
    mount_xfs /dev/vg0/data
    record lvm-raid1 dm-4 \
        "LVM raid1 volume of 500 GiB on a hard disk (image 0) and an SSD, XFS at /srv/data." \
        "pvcreate; vgcreate vg0 /dev/sda /dev/sdb;" \
        "lvcreate --type raid1 -m 1 --nosync -L 500G -n data vg0 /dev/sda /dev/sdb"
    try lvchange -y --writemostly /dev/sda:y vg0/data
    record lvm-raid1-writemostly dm-4 \
        "The volume of lvm-raid1 after: lvchange --writemostly /dev/sda:y vg0/data"
    umount /srv/data
    try vgchange -an vg0
    forget_disks
}

nested() {
    for disk in sda sdb; do
        printf 'label: dos\nstart=2048, size=1G, type=83\ntype=fd\n' >/run/partitions
        sfdisk -q "/dev/$disk" </run/partitions >/run/output 2>&1 || fail sfdisk
    done
    sleep 1
    create_md --level=1 --raid-devices=2 --assume-clean --bitmap=internal /dev/sda2 /dev/sdb2
    try pvcreate -ff -y /dev/md0
    try vgcreate vg1 /dev/md0
    try lvcreate -y -Wn -L 200G -n home vg1
    printf 'a secret' >/run/key
    try cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
        /dev/vg1/home /run/key
    try cryptsetup open --key-file /run/key /dev/vg1/home home
    mount_xfs /dev/mapper/home
    record luks-on-lvm-on-md dm-1 \
        "LUKS on a linear LVM volume on md RAID1 on partitions; XFS mounted at /srv/data." \
        "mdadm --create as in md-raid1-hdd-ssd, of /dev/sda2 /dev/sdb2; pvcreate /dev/md0;" \
        "vgcreate vg1 /dev/md0; lvcreate -L 200G -n home vg1; cryptsetup luksFormat, open"
    umount /srv/data
    try cryptsetup close home
    try vgchange -an vg1
    stop_md
}

btrfs_raid1_three() {
    try mkfs.btrfs -q -K -f -L pool -d raid1 -m raid1 /dev/sdg /dev/sdh /dev/sdi
    try btrfs device scan
    try mount -t btrfs /dev/sdg /srv/data
    try btrfs subvolume create /srv/data/music
    dd if=/dev/zero of=/srv/data/music/file bs=1M count=256 2>/dev/null
    sync
    record btrfs-raid1-three none \
        "btrfs RAID1 of three unequal hard disks, mounted at /srv/data." \
        "mkfs.btrfs -L pool -d raid1 -m raid1 /dev/sdg /dev/sdh /dev/sdi"
    umount /srv/data
}

# The controllers of both subsystems as the kernel found them, and as they should be: number 0 of
# the first subsystem, number 1 of the second. A second number 0 is refused by the kernel.
nvme_multipath() {
    modprobe nvme
    driver=/sys/bus/pci/drivers/nvme
    # One word for each controller.
    # shellcheck disable=SC2046
    set -- $(cd /sys/bus/pci/devices && grep -l 0x010802 -- */class | sed 's,/class,,' | sort)
    [ $# = 3 ] || fail "$# NVMe controllers"
    for function in "$@"; do echo "$function" 2>/dev/null >$driver/unbind; done
    sleep 1
    echo "$1" >$driver/bind
    sleep 1
    echo "$3" >$driver/bind
    sleep 2
    record nvme-multipath "$(cd /sys/block && echo nvme*n1)" \
        "NVMe namespace with two paths, from two emulated subsystems of one name. QEMU fixes the" \
        "model of its controllers; they have no ANA, and the kernel ignores their UUIDs (a quirk" \
        "for QEMU). Nothing is mounted."
}

# The two disks of one model that no other array uses are one disk. There is no multipathd: the
# table is made as it would make it.
dm_multipath() {
    # Names of devices, without spaces.
    # shellcheck disable=SC2046
    set -- $(cd /sys/block && grep -l VIRTUAL-DISK -- sd*/device/model | cut -d / -f 1)
    [ $# = 2 ] || fail "$# paths"
    for module in dm_multipath dm_service_time; do try modprobe $module; done
    first=$(cat "/sys/block/$1/dev")
    second=$(cat "/sys/block/$2/dev")
    table="0 $(cat "/sys/block/$1/size") multipath 0 0 1 1"
    table="$table service-time 0 2 2 $first 1 1 $second 1 1"
    try dmsetup create mpatha --noudevsync --noudevrules --uuid mpath-360014058f2a1c44 \
        --table "$table"
    try dmsetup mknodes
    mount_xfs /dev/mapper/mpatha
    try dmsetup message mpatha 0 fail_path "$second"
    record dm-multipath dm-0 \
        "dm-multipath with two paths to one disk, one of which failed; XFS at /srv/data. Two" \
        "controllers of QEMU have the same file. There is no multipathd: the table was made by" \
        "dmsetup create mpatha --uuid mpath-360014058f2a1c44 --table" \
        "    \"$table\";" \
        "dmsetup message mpatha 0 fail_path $second"
    umount /srv/data
    try dmsetup remove mpatha
}

attach_disks
for module in virtio_blk xfs btrfs raid1 raid10 dm_raid dm_crypt; do try modprobe $module; done
trees=,$(sed -n 's/.*trees=\([^ ]*\).*/\1/p' /proc/cmdline),
for tree in md_raid1_hdd_ssd md_raid1_degraded md_raid1_resyncing md_raid10 lvm_raid1 nested \
    btrfs_raid1_three nvme_multipath dm_multipath; do
    if wanted "$tree"; then $tree; fi
done
tar -c -f /dev/vda -C /run trees || fail "tar"
sync
echo "== all is well"
poweroff -f
