# A guest under Debian's stock kernel in QEMU, for the scripts here; sourced after common.sh.
#
# Needs no root and no KVM: QEMU emulates the CPU. The kernel is fetched with apt-get
# (KERNEL=PACKAGE for another one) and unpacked, not installed. The guest has no network, and runs
# one script as its first and only process, with busybox and the programs copied into it.
# shellcheck shell=bash

guest=${work:?source common.sh first}/guest

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

# Fetches packages and unpacks them in $work/unpacked.
fetch() {
    mkdir -p "$work/packages" "$work/unpacked"
    (cd "$work/packages" && apt-get download -qq "$@" 2>/dev/null)
    for package in "$work"/packages/*.deb; do
        dpkg-deb --extract "$package" "$work/unpacked"
        rm "$package"
    done
}

# Fetches the kernel, and starts the guest's tree with these folders of its modules. Sets $kernel
# to its version and $image to the path of the kernel itself.
start_guest_tree() {
    local package parts found images
    package=${KERNEL:-$(kernel_package)}
    # Since Linux 7 Debian has the kernel in packages that the one with its name depends on.
    mapfile -t parts < <(apt-cache depends "$package" |
        sed -n 's/^ *Depends: \(linux-\(binary\|modules\)-.*\)$/\1/p')
    echo "== fetching $package"
    fetch "$package" "${parts[@]}"
    shopt -s nullglob
    found=("$work"/unpacked/{,usr/}lib/modules/*)
    images=("$work"/unpacked/{boot,usr/lib/modules/*}/vmlinuz*)
    shopt -u nullglob
    if [[ ${#found[@]} != 1 || ${#images[@]} == 0 ]]; then
        echo "$package is not one kernel: KERNEL=PACKAGE names another" >&2
        exit 2
    fi
    kernel=$(basename "${found[0]}")
    image=${images[0]}
    start_tree_with "${found[0]}" "$@"
}

# The same with a kernel image of the user and its modules, a folder lib/modules/VERSION; no folder
# if everything is built in.
start_guest_tree_of() {
    local modules=$2
    image=$1
    kernel=$(file --brief "$image" | sed -n 's/.*kernel.*version \([^ ]*\).*/\1/p')
    if [[ -z $kernel ]]; then
        echo "$image is not a kernel image: give the bzImage" >&2
        exit 2
    fi
    if [[ -n $modules && $(basename "$modules") != "$kernel" ]]; then
        echo "$image is $kernel, and $modules is not lib/modules/$kernel" >&2
        exit 2
    fi
    start_tree_with "$modules" "${@:3}"
}

# Starts the guest's tree with these folders of the modules in a folder, if there is one.
start_tree_with() {
    local part modules=$guest/lib/modules/$kernel
    mkdir -p "$guest"/{bin,dev,etc,proc,sys,run,tmp} "$modules"
    cp "$(command -v busybox)" "$guest/bin/"
    if [[ -z $1 ]]; then return; fi
    for part in "${@:2}"; do
        if [[ -d $1/kernel/$part ]]; then
            mkdir -p "$modules/$part"
            cp -r "$1/kernel/$part/." "$modules/$part"
        fi
    done
    for part in order builtin builtin.modinfo; do cp "$1/modules.$part" "$modules"; done
    find "$modules" -name '*.xz' -exec xz --decompress {} +
    busybox depmod -b "$guest" "$kernel"
}

# Stops unless the kernel has this module as a file.
need_module() {
    if ! find "$guest/lib/modules" -name "$1.ko*" | grep -q .; then
        echo "$kernel has no module $1: KERNEL=PACKAGE names another kernel" >&2
        exit 2
    fi
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

# Packs the tree, with this script as its first process and what all of them start with.
pack_guest() {
    cp "$1" "$guest/init"
    cp "$(dirname "${BASH_SOURCE[0]}")/guest.sh" "$guest/bin/"
    chmod +x "$guest/init"
    (cd "$guest" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/initramfs"
    rm -rf "$guest"
}

# A command in front of QEMU, to give it priority.
urgent=()
# The guest's processors: two, or one where this process may use one only. Two in turn on one, with
# priority, make hardly any progress.
processor=(-accel "tcg,thread=multi" -smp "$(($(nproc) < 2 ? 1 : 2))")

# Boots the guest with these words for its kernel and these arguments for QEMU; prints its console,
# whose input is $input, if that is set.
# Without no_timer_check a kernel on an emulated CPU that is not served for a while at its start
# finds that its timer does not work, and stops.
run_guest() {
    local words=$1
    shift
    "${urgent[@]}" timeout --foreground 2400 qemu-system-x86_64 "${processor[@]}" -cpu max -m 3G \
        -nographic -no-reboot -nic none -kernel "$image" -initrd "$work/initramfs" \
        -append "console=ttyS0 quiet panic=-1 no_timer_check $words" "$@" <"${input:-/dev/null}" |
        stdbuf -o"$([[ ${input:-} ]] && echo 0 || echo L)" tr -d "\r"
}
