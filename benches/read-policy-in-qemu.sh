#!/usr/bin/env bash
# Runs read policies inside a real kernel: builds the modules of kernel/ and boots them in QEMU.
#
#   benches/read-policy-in-qemu.sh [--steps LIST] [FOLDER]
#
#   --steps LIST   of off, shares, btrfs, replay, swaps, hostile, cost, unequal, tests, with commas
#                  [default: all but unequal and tests, which take 23 and 32 minutes]; or shell, a
#                  prompt in the guest with the array md0
#   FOLDER         gets the console of the guest and the tables, in Markdown
#
# As root, on Debian or with mmdebstrap. CACHE (default ~/.cache/mirrorball/kernel) gets a root
# folder of Debian sid with the headers of its cloud kernel, the compiler that this kernel was built
# with, pahole and bpftool, 1.5 GB; the kernel itself; and its source. Nothing is installed on this
# machine. The modules are made against the headers, as DKMS would, again only after kernel/
# changed; no kernel is built. SECONDS_EACH is the time of each job (default 6), RECORDS a folder of
# recorded reads to use again. About a third of the STEPS (default 100,000) of a recorded history
# are reads; a million takes 3 GB. MIRRORBALL names the program that emulates the disks and
# simulates; without it the release build is made.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=benches/qemu.sh
source "$root/benches/qemu.sh"
steps=off,shares,btrfs,replay,swaps,hostile,cost
if [[ ${1:-} == --steps ]]; then steps=$2 && shift 2; fi
output=${1:-$work/output}
seconds=${SECONDS_EACH:-6}
cache=${CACHE:-$HOME/.cache/mirrorball/kernel}
sid=$cache/root
mirror=${MIRROR:-http://deb.debian.org/debian}

need qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap clang:clang python3:python3 \
    busybox:busybox
if ((EUID)); then
    echo "a root folder of Debian sid is made by root only: run this with sudo" >&2
    exit 2
fi
build
mkdir -p "$cache" "$output"

# Packages of this distribution, with the commands that a guest needs.
packages=(linux-headers-cloud-amd64 linux-source make python3 xz-utils pahole bpftool
    busybox-static fio mdadm btrfs-progs kmod e2fsprogs mount)
if [[ ! -e $sid/usr/sbin/bpftool ]]; then
    echo "== making a root folder of Debian sid in $sid"
    mmdebstrap --quiet --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' \
        --aptopt='APT::Install-Recommends "false"' --include="$(
            IFS=,
            echo "${packages[*]}"
        )" sid "$sid" "$mirror"
fi
headers=("$sid"/usr/src/linux-headers-*-cloud-amd64)
kernel=${headers[0]##*/linux-headers-}
if [[ ! -e $cache/$kernel/usr/lib/modules/$kernel/vmlinuz ]]; then
    echo "== fetching Linux $kernel"
    mkdir -p "$cache/$kernel" "$sid/tmp/kernel"
    # The root folder has no lists of packages after it was made.
    chroot "$sid" sh -c "apt-get update -qq && cd /tmp/kernel &&
        apt-get download -qq linux-binary-$kernel linux-modules-$kernel"
    for package in "$sid"/tmp/kernel/*.deb; do
        dpkg-deb --extract "$package" "$cache/$kernel"
    done
fi
image=$cache/$kernel/usr/lib/modules/$kernel/vmlinuz

echo "== making the modules for Linux $kernel"
start=$SECONDS
# Files that have not changed keep their time, so that make has nothing to do again.
mkdir -p "$sid/build/source"
for file in "$root"/kernel/* "$root/benches/read-policy-off.sh"; do
    cmp -s "$file" "$sid/build/source/${file##*/}" || cp "$file" "$sid/build/source"
done
archives=("$sid"/usr/src/linux-source-*.tar.xz)
# The kernel's objtool reads /proc.
in_sid() {
    unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$sid" "$@"
}
in_sid make -s -j4 -C /build/source KDIR="/usr/src/linux-headers-$kernel" \
    OUT=/build/modules SOURCE="/usr/src/${archives[0]##*/}" >"$output/build.log" 2>&1 ||
    { cat "$output/build.log" && exit 1; }
echo "took $((SECONDS - start)) s"
if [[ $steps == *off* ]]; then
    in_sid /build/source/read-policy-off.sh /build/source "/usr/src/linux-headers-$kernel" \
        "/usr/src/${archives[0]##*/}" /build/off | tee "$output/off"
fi

# The guest: the kernel's modules, with ours in the place of its own, and the programs.
mkdir -p "$guest"/{bin,dev,etc,proc,sys,run,tmp,programs,hostile} "$guest/lib/modules/$kernel"
copy_from_sid() {
    local file
    cp -L "$sid$1" "$guest/bin/"
    # A static program has none.
    for file in $(chroot "$sid" ldd "$1" 2>/dev/null | grep -o '/[^ ]*' || true); do
        mkdir -p "$guest$(dirname "$file")"
        cp -nL "$sid$file" "$guest$file"
    done
}
programs=(/usr/bin/{busybox,fio,btrfs} /usr/sbin/{mdadm,bpftool,mkfs.btrfs})
if [[ $steps == *tests* ]]; then
    # The tests of the source package, and what they call.
    programs+=(/usr/bin/{bash,lsblk,udevadm} /usr/lib/systemd/systemd-udevd
        /usr/sbin/{losetup,blockdev,mkfs.ext3,fsck,fsck.ext3,mdmon})
    if [[ ! -d $cache/mdadm ]]; then
        chroot "$sid" sh -c "echo deb-src $mirror sid main >/etc/apt/sources.list.d/source.list &&
            apt-get update -qq && cd /tmp && apt-get source -qq --download-only mdadm"
        mkdir "$cache/mdadm"
        tar -xf "$sid"/tmp/mdadm_*.orig.tar.[gx]z -C "$cache/mdadm" --strip-components=1
    fi
    mkdir -p "$guest"/{mdadm,usr/lib}
    cp -r "$cache"/mdadm/{test,tests} "$guest/mdadm"
    cp -r "$sid/usr/lib/udev" "$guest/usr/lib"
fi
for program in "${programs[@]}"; do copy_from_sid "$program"; done
modules=$cache/$kernel/usr/lib/modules/$kernel/kernel
for part in crypto lib fs/btrfs drivers/{md,block,scsi,virtio} arch/x86/crypto; do
    if [[ -d $modules/$part ]]; then
        mkdir -p "$guest/lib/modules/$kernel/$part"
        cp -r "$modules/$part/." "$guest/lib/modules/$kernel/$part"
    fi
done
find "$guest/lib/modules" -name '*.xz' -exec xz --decompress {} +
mkdir "$guest/stock"
find "$guest/lib/modules" -name raid1.ko -exec cp {} "$guest/stock" \;
for module in "$sid"/build/modules/{,btrfs/}*.ko; do
    find "$guest/lib/modules" -name "$(basename "$module")" -delete
    strip --strip-debug -o "$guest/lib/modules/$kernel/$(basename "$module")" "$module"
done
"$sid/usr/bin/busybox" depmod -b "$guest" "$kernel"
compile() {
    clang --target=bpf -mcpu=v3 -O2 -g -DMB_KERNEL -I "$root/crates/program/include" \
        -c "$1" -o "$2" "${@:3}"
}
for source in "$root"/programs/*.c; do
    name=$(basename "$source" .c)
    compile "$source" "$guest/programs/$name.bpf.o" 2>"$work/errors" ||
        echo "$name is not for a kernel: $(grep -m1 -o 'error: .*' "$work/errors")"
done
hostile=(endless many-turns wild-choice missing-mirror starving full-map huge-state own-clock
    foreign-loop writes-context own-bug slow outside may-goto inner-loop many-calls slow-turns
    divisions arena)
for number in "${!hostile[@]}"; do
    compile "$root/benches/hostile-policies.c" "$guest/hostile/${hostile[$number]}.bpf.o" \
        -DHOSTILE="$number"
done
compile "$root/benches/check-shown.c" "$guest/check-shown.bpf.o"
python3 "$root/benches/read-policy-in-qemu.py" inputs "$work/jobs" "$seconds"
cp -r "$work/jobs" "$guest"
pack_guest "$root/benches/read-policy-in-qemu.guest.sh"

# Boots the guest with these arguments, and stops unless it came to its end.
run_guest_into() {
    run_guest "${@:2}" | tee "$1" || true
    if ! grep -qx "== all is well" "$1"; then
        echo "the guest failed, or did not end within 40 minutes; above are its last lines" >&2
        exit 1
    fi
    cat "$1" >>"$output/console"
}

# Serves the members of an array, and sets $disks to QEMU's arguments for as many of them.
start_disks() {
    local member
    start_server emulate "$1" --members
    disks=(-object iothread,id=io -device virtio-scsi-pci,id=scsi,iothread=io)
    for ((member = 1; member <= $2; member++)); do
        disks+=(-blockdev "driver=file,cache.direct=on,aio=native,filename=$work/mount/$(
            )member-$member,node-name=m$member"
            -device "scsi-hd,drive=m$member,lun=$member,rotation_rate=7200")
    done
}

if ((${#ahead[@]})); then urgent=(chrt --rr 5); fi
cp "$output/off" "$output/console" 2>/dev/null || : >"$output/console"
if [[ $steps =~ shares|btrfs|replay|swaps|hostile|shell ]]; then
    start_disks "$work/jobs/md.toml" 2
    if [[ $steps == *replay* ]]; then
        # Every call of random histories, with the choices of the built-in policies.
        records=${RECORDS:-$work/records}
        if [[ ! -d $records ]]; then
            mkdir "$records"
            MIRRORBALL_RECORDS=$records MIRRORBALL_RECORDED_STEPS=${STEPS:-100000} \
                cargo test --quiet --manifest-path "$root/Cargo.toml" \
                -p mirrorball-program --test programs as_bpf >"$output/records.log"
        fi
        tar -C "$records" -cf "$work/records.tar" --transform 's,^\./,,' .
        disks+=(-blockdev "driver=file,filename=$work/records.tar,node-name=m3"
            -device scsi-hd,drive=m3,lun=3)
    fi
    echo "== Linux $kernel in QEMU"
    if [[ $steps == *shell* ]]; then input=/dev/stdin; fi
    run_guest_into "$output/console-main" "steps=$steps" "${disks[@]}"
    stop_server
fi
if [[ $steps == *unequal* ]]; then
    echo "== unequal members, and one that becomes slow"
    started=$(date +%s)
    start_disks "$work/jobs/unequal.toml" 4
    run_guest_into "$output/console-unequal" "steps=unequal started=$started" "${disks[@]}"
    stop_server
fi
if [[ $steps == *tests* ]]; then
    echo "== mdadm's tests"
    run_guest_into "$output/console-tests" "steps=tests"
fi
if [[ $steps == *cost* ]]; then
    # Each instruction takes 1 ns of the guest's time.
    echo "== the same, counting instructions"
    processor=(-accel "tcg,thread=single" -smp 1 -icount shift=0)
    run_guest_into "$output/console-cost" "steps=count"
fi
python3 "$root/benches/read-policy-in-qemu.py" table "$MIRRORBALL" "$work/jobs" "$output/console" |
    tee "$output/tables.md"
