#!/usr/bin/env bash
# What a setting brings: real md, LVM and NVMe multipath of Debian's stock kernel on emulated disks.
#
#   benches/advise-in-qemu.sh [FOLDER]      SECONDS_EACH=20 SYSTEMS="md lvm nvme" are the defaults
#
# Boots the kernel in QEMU (see qemu.sh), with the members of an array that `mirrorball emulate`
# serves over FUSE as its disks (not NBD: QEMU's client holds back up to a third of the requests in
# flight, and has at most 16). md and LVM have a hard disk and an SSD (one read at a time: more
# would measure the CPU of the guest), then a hard disk and a memory card; the two paths of an NVMe
# namespace are delays of 2 ms and 6 ms. In the guest, `detect` and `advise` read the array; the
# guest runs the command that `advise` prints, and the one that undoes it, with fio before and after
# each, and checks what stays over a restart of the array (advise-in-qemu.guest.sh). Then `advise`
# predicts the gain from the guest's array file, with the host overhead fitted to a member alone at
# depth 1, and `compare` the gains of the other settings.
#
# FOLDER gets measured.csv, with reads as each member counted them, the array files of the guest,
# and gains.md. Root only for priority over other work of this machine: without it, wake-ups that
# are late are measured too.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"
output=${1:-$work/output}
seconds=${SECONDS_EACH:-20}
systems=${SYSTEMS:-md lvm nvme}

need qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt fio:fio mdadm:mdadm \
    lvm:lvm2 dmsetup:dmsetup python3:python3
build

start_guest_tree crypto lib drivers/md drivers/block drivers/scsi drivers/nvme
need_module dm-raid
for program in fio mdadm lvm dmsetup; do copy_program "$(command -v "$program")" "$program"; done
for program in lvs lvcreate lvchange lvremove vgcreate vgchange pvcreate; do
    ln -s lvm "$guest/bin/$program"
done
mkdir -p "$guest/etc/lvm" "$guest/jobs"
cp "$root/benches/qemu.lvm.conf" "$guest/etc/lvm/lvm.conf"
for job in rand-4k-qd1 rand-4k-qd32 seq-read; do
    sed -e "s/^runtime=.*/runtime=$seconds/" "$root/jobs/$job.fio" >"$guest/jobs/$job.fio"
done
sed -e 's/qd32/qd8/; s/^iodepth=.*/iodepth=8/' "$guest/jobs/rand-4k-qd32.fio" \
    >"$guest/jobs/rand-4k-qd8.fio"
cp -r "$guest/jobs" "$work"
copy_program "$MIRRORBALL" mirrorball

mkdir -p "$output" "$work/arrays"
cp "$root"/arrays/{hdd-ssd,two-delays}-raid1.toml "$work/arrays"
cat >"$work/arrays/hdd-card-raid1.toml" <<'ARRAY'
# A hard disk mirrored to a flash memory card: 4 reads at a time, each about 2 ms, as a card of
# application class A1 does (1,500 IOPS at least). Slow enough that the CPU of a guest in QEMU does
# not limit it at any depth; the SSD of hdd-ssd-raid1 is too fast for that beyond depth 1.
name = "HDD and memory card, RAID1"
profile = "raid1"

[[member]]
model = "hdd-7k2-ent"
size = "128GB"

[[member]]
model = "ssd-sata-plp"
size = "128GB"
set = { dies = 4, read = "2ms" }
ARRAY
# Of each member the lines of its model, for the array file that is written in the guest.
mkdir "$guest/models"
for array in "$work"/arrays/*.toml; do
    python3 "$root/benches/advise-gains.py" models "$array" "$guest/models"
done
pack_guest "$root/benches/advise-in-qemu.guest.sh"

# The guest goes before other work as well, though not before the server.
if ((${#ahead[@]})); then urgent=(chrt --rr 5); fi

# Serves an array, and boots a guest that measures these systems on its members with these jobs.
measure() {
    local array=$1 wanted=$2 jobs=$3 name member system
    local disks=()
    shift 3
    name=$(basename "$array" .toml)
    mkdir -p "$work/mount"
    start_server emulate "$array" --members
    for member in 1 2; do
        disks+=(-blockdev "driver=file,node-name=m$member,cache.direct=on,aio=native,$(
            )filename=$work/mount/member-$member")
    done
    echo "== $kernel, in QEMU, on $name"
    run_guest "systems=$wanted jobs=$jobs array=$name" "${disks[@]}" "$@" | tee "$work/console" |
        { grep -v ^file, || true; }
    ask stats | python3 -c '
import json, sys
for member in json.load(sys.stdin)["members"]:
    late = member["lateness"]
    p99, bound = late["p99_ns"] / 1e3, "" if late["within_bound"] else ", REFUSED"
    print(f"    lateness, p99: {p99:.0f} us{bound}")'
    stop_server
    sed -n "s/^result,/$name,/p" "$work/console" >>"$output/measured.csv"
    for system in md lvm nvme; do
        sed -n "s/^file,$system,//p" "$work/console" >"$output/$name-$system.toml"
    done
    find "$output" -name "$name-*.toml" -empty -delete
    grep -qx "== all is well" "$work/console"
}

measure_disks() {
    local wanted=${systems/nvme/}
    measure "$1" "${wanted// /,}" "$2" -object iothread,id=io \
        -device virtio-scsi-pci,id=scsi,iothread=io \
        -device "scsi-hd,drive=m1,vendor=ATA,product=$3,rotation_rate=7200" \
        -device "scsi-hd,drive=m2,vendor=ATA,product=$4,rotation_rate=1"
}

# The first controller of the second subsystem only takes the number that the first one uses.
measure_paths() {
    measure "$1" nvme "$2" \
        -device nvme-subsys,id=s1,nqn=array -device nvme-subsys,id=s2,nqn=array \
        -device nvme,id=first,serial=ARRAY0001,subsys=s1 \
        -device nvme,id=refused,serial=ARRAY0001,subsys=s2 \
        -device nvme,id=second,serial=ARRAY0001,subsys=s2 \
        -device nvme-ns,drive=m1,bus=first,nsid=1 -device nvme-ns,drive=m2,bus=second,nsid=1
}

all=rand-4k-qd1,rand-4k-qd8,rand-4k-qd32,seq-read
echo "array,system,job,setting,iops,kib_per_s,mean_us,reads_1,reads_2" >"$output/measured.csv"
case $systems in *md* | *lvm*)
    measure_disks "$work/arrays/hdd-ssd-raid1.toml" rand-4k-qd1 \
        HUS728T8TALE6L4 "SAMSUNG MZ7LH960"
    measure_disks "$work/arrays/hdd-card-raid1.toml" $all HUS728T8TALE6L4 "Memory Card" ;;
esac
# No sequential reader: the kernel merges its reads, and a delay takes as long for the merged ones.
case $systems in *nvme*)
    measure_paths "$work/arrays/two-delays-raid1.toml" "${all%,seq-read}" ;;
esac
column -s , -t "$output/measured.csv"
python3 "$root/benches/advise-gains.py" gains "$MIRRORBALL" "$output" "$work/jobs" \
    "$work/arrays" "$work/simulated" | tee "$output/gains.md"
