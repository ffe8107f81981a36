#!/usr/bin/env bash
# Emulated disks as block devices of the ublk driver, on a kernel that has one: Debian's, in QEMU.
#
#   benches/ublk-in-qemu.sh [OUTPUT]
#
# Needs no root, no KVM and no ublk here: QEMU emulates the CPU. The kernel and mdadm are fetched
# with apt-get (KERNEL=PACKAGE for another one, 6.4 or later; 6.12 and 7.2 were tried) and unpacked,
# not installed. The guest has no disk and no network; it runs ublk-in-qemu.guest.sh, whose words
# are printed, and left in OUTPUT. Times in there are those of an emulated CPU.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
output=${1:-$work/output}
programs=(fio mkfs.xfs xfs_repair blkdiscard chrt)

for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static apt-get:apt \
    fio:fio mkfs.xfs:xfsprogs xfs_repair:xfsprogs blkdiscard:util-linux chrt:util-linux; do
    if ! command -v "${pair%%:*}" >/dev/null; then
        echo "${pair%%:*} is missing: apt-get install ${pair##*:}" >&2
        exit 2
    fi
done
build

# The package of the newest cloud kernel that apt knows, behind the one that only names it.
kernel_package() {
    local name
    for name in linux-image-6.12-cloud-amd64 linux-image-cloud-amd64; do
        if apt-cache show "$name" >/dev/null 2>&1; then
            apt-cache depends "$name" | sed -n 's/^ *Depends: \(linux-image-.*\)$/\1/p' | head -n 1
            return
        fi
    done
}

fetch() {
    (cd "$work/packages" && apt-get download -qq "$@" 2>/dev/null)
    for package in "$work"/packages/*.deb; do
        dpkg-deb --extract "$package" "$work/unpacked"
        rm "$package"
    done
}

# Copies a program under a name, and the libraries that it loads.
copy_program() {
    local file
    cp "$1" "$guest/bin/$2"
    ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r file; do
        mkdir -p "$guest$(dirname "$file")"
        cp -n "$file" "$guest$file"
    done
}

guest=$work/guest
mkdir -p "$work/packages" "$work/unpacked" "$guest"/{bin,dev,proc,sys,run}
package=${KERNEL:-$(kernel_package)}
# Since Linux 7 Debian has the kernel in packages that the one with its name depends on.
mapfile -t parts < <(apt-cache depends "$package" |
    sed -n 's/^ *Depends: \(linux-\(binary\|modules\)-.*\)$/\1/p')
echo "== fetching $package and mdadm"
fetch "$package" "${parts[@]}" mdadm
shopt -s nullglob
found=("$work"/unpacked/{,usr/}lib/modules/*)
images=("$work"/unpacked/{boot,usr/lib/modules/*}/vmlinuz*)
shopt -u nullglob
if [[ ${#found[@]} != 1 ]] || ! find "${found[0]}" -name 'ublk_drv.ko*' | grep -q .; then
    echo "$package has no ublk: KERNEL=PACKAGE names another kernel" >&2
    exit 2
fi
kernel=$(basename "${found[0]}")
modules=$guest/lib/modules/$kernel
mkdir -p "$modules"
for part in crypto lib fs/xfs drivers/md drivers/block arch/x86/crypto; do
    if [[ -d ${found[0]}/kernel/$part ]]; then
        mkdir -p "$modules/$part"
        cp -r "${found[0]}/kernel/$part/." "$modules/$part"
    fi
done
find "$modules" -name '*.xz' -exec xz --decompress {} +
busybox depmod -b "$guest" "$kernel"

cp "$(command -v busybox)" "$guest/bin/"
copy_program "$MIRRORBALL" mirrorball
copy_program "$work/unpacked/sbin/mdadm" mdadm
for program in "${programs[@]}"; do copy_program "$(command -v "$program")" "$program"; done
cp "$root/benches/ublk-in-qemu.guest.sh" "$guest/init"
chmod +x "$guest/init"
(cd "$guest" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/initramfs"
rm -rf "$guest"

echo "== $kernel, in QEMU"
timeout 1200 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 3G \
    -nographic -no-reboot -nic none -kernel "${images[0]}" \
    -initrd "$work/initramfs" -append "console=ttyS0 quiet panic=-1" </dev/null |
    stdbuf -oL tr -d "\r" | tee "$output"
grep -qx "== all is well" "$output"
