#!/usr/bin/env bash
# `mirrorball tune` on real arrays of Debian's stock kernel: applied, kept over reboots, undone,
# killed, and as a service under a member that becomes slow.
#
#   benches/tune-in-qemu.sh [FOLDER]  SYSTEMS="md lvm nvme dm kill auto" KILLS=20 are the defaults
#
# Boots the kernel in QEMU (see qemu.sh), on emulated disks that stay for all boots of a system,
# with /etc and /var on a small disk of their own. tune-in-qemu.guest.sh says what each boot does.
# In the boots "kill" and "auto" the first member of each array becomes 4 times as slow at times
# that the service does not know. FOLDER gets the consoles.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"
output=${1:-$work/output}
systems=${SYSTEMS:-md lvm nvme dm kill auto}

need qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt fio:fio mdadm:mdadm \
    lvm:lvm2 dmsetup:dmsetup multipathd:multipath-tools udevadm:udev mke2fs:e2fsprogs
build

start_guest_tree crypto lib fs drivers/md drivers/block drivers/scsi drivers/nvme
need_module dm-raid
for program in fio mdadm lvm dmsetup multipath multipathd udevadm; do
    copy_program "$(command -v "$program")" "$program"
done
for program in lvs lvcreate lvchange vgcreate vgchange pvcreate; do
    ln -s lvm "$guest/bin/$program"
done
copy_program /lib/systemd/systemd-udevd udevd
copy_program "$MIRRORBALL" mirrorball
mkdir -p "$guest"/etc/lvm "$guest"/lib/udev "$guest"/lib/multipath
cp "$root/benches/qemu.lvm.conf" "$guest/etc/lvm/lvm.conf"
cp -r /lib/udev/rules.d "$guest/lib/udev"
copy_program /lib/udev/scsi_id scsi_id
ln -s /bin/scsi_id "$guest/lib/udev/"
cp /lib/multipath/*.so "$guest/lib/multipath"
# The arrays are started by the script, in the order that it needs.
rm "$guest"/lib/udev/rules.d/{64-md-raid-assembly,69-lvm}.rules
pack_guest "$root/benches/tune-in-qemu.guest.sh"
if ((${#ahead[@]})); then urgent=(chrt --rr 5); fi
# With two processors a kernel sometimes stops at its start, when it changes its own code: an
# emulated CPU may run the old instruction behind the breakpoint.
processor=(-accel tcg -smp 1)
mkdir -p "$output"

# Starts the emulation of hard disks: for each, the fault that it has.
start_disks() {
    local fault
    mkdir -p "$work/mount"
    {
        echo 'layout = "md-raid1"'
        for fault; do
            printf '\n[[member]]\nmodel = "hdd-7k2-ent"\nsize = "128GB"\n%s\n' "$fault"
        done
    } >"$work/array.toml"
    start_server emulate "$work/array.toml" --members
    started=$(date +%s)
    drives=()
    for member in $(seq $#); do
        drives+=(-blockdev "driver=file,node-name=m$member,cache.direct=on,aio=native,$(
            )filename=$work/mount/member-$member")
    done
    rm -f "$work/state"
    mke2fs -q -t ext4 "$work/state" 64M
    drives+=(-drive "file=$work/state,format=raw,if=virtio")
}

# SCSI disks of all members; another first disk of two or three if its name is given, as settings
# that exchange equal disks are not offered.
scsi() {
    local member product
    drives+=(-object "iothread,id=io" -device "virtio-scsi-pci,id=scsi,iothread=io")
    for member in $(seq "$1"); do
        product=HUS728T8TALE6L4
        case $member in 1 | 3) product=${2:-$product} ;; esac
        drives+=(-device "scsi-hd,drive=m$member,lun=$member,vendor=ATA,product=$product,$(
            )rotation_rate=7200,${3:-serial=DISK000$member}")
    done
}

boot() {
    echo "== $kernel, in QEMU: $1, boot $2"
    run_guest "system=$1 boot=$2 started=$started kills=${KILLS:-20}" "${drives[@]}" |
        tee "$output/$1-$2"
    grep -qx "== all is well" "$output/$1-$2"
}

slow="fault = [{ slow = 4.0, from = \"150s\" }]"
for system in $systems; do
    boots="1 2 3"
    case $system in
        md) start_disks "" "" "" "" "" && scsi 5 ST4000NM0035-1V4 ;;
        lvm) start_disks "" "" && scsi 2 ST4000NM0035-1V4 ;;
        dm) start_disks "" "" && scsi 2 "" serial=MPATH001,wwn=0x5000c50012345678 ;;
        nvme)
            start_disks "" ""
            drives+=(-device "nvme-subsys,id=s1,nqn=array" -device "nvme-subsys,id=s2,nqn=array"
                -device "nvme,id=first,serial=ARRAY0001,subsys=s1"
                -device "nvme,id=refused,serial=ARRAY0001,subsys=s2"
                -device "nvme,id=second,serial=ARRAY0001,subsys=s2"
                -device "nvme-ns,drive=m1,bus=first,nsid=1"
                -device "nvme-ns,drive=m2,bus=second,nsid=1") ;;
        kill) start_disks "$slow" "" "$slow" "" "" "$slow" "" && scsi 7 && boots=1 ;;
        auto)
            # The guest's script has these times too: seconds since the start of the emulation.
            windows=""
            for from in 200 400 600 800; do
                windows+="{ slow = 4.0, from = \"${from}s\", until = \"$((from + 90))s\" }, "
            done
            start_disks "fault = [$windows]" "" && scsi 2 && boots=1 ;;
        *) echo "SYSTEMS has no $system" >&2 && exit 2 ;;
    esac
    for number in $boots; do boot "$system" "$number"; done
    stop_server
done
