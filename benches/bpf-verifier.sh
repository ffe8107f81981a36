#!/usr/bin/env bash
# Offers the example policies to the BPF verifier of the running kernel: benches/bpf-verifier.sh
#
# As root, with clang and bpftool, on Linux 6.4 or later. Each example is compiled with -DMB_KERNEL,
# once with the kernel's iterators and once with its loops unrolled, and loaded. Nothing is
# attached, and nothing stays loaded. BPFTOOL names another bpftool.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bpftool=${BPFTOOL:-bpftool}
for tool in clang llvm-objdump "$bpftool"; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool is missing: apt-get install clang llvm bpftool" >&2
        exit 2
    fi
done
if ((EUID)); then
    echo "the verifier is asked as root: run this with sudo" >&2
    exit 2
fi
# A mount namespace of its own, so that the file system of BPF goes with this script.
if [[ -z ${MB_IN_NAMESPACE:-} ]]; then
    MB_IN_NAMESPACE=1 exec unshare --mount "$0" "$@"
fi
folder=$(mktemp -d)
mkdir "$folder/pins"
trap 'umount "$folder/pins"; rm -r "$folder"' EXIT
mount -t bpf none "$folder/pins"

echo "Linux $(uname -r), $(clang --version | head -1)"
printf '%-20s %-9s %12s %12s  %s\n' policy loops instructions 'looked at' verdict

# Compiles an example with an option and offers it: offer SOURCE LOOPS OPTION...
offer() {
    local source=$1 loops=$2 name verdict=accepted size=0 bytes looked
    name=$(basename "$source" .c)
    if ! clang --target=bpf -mcpu=v3 -O2 -g -DMB_KERNEL "${@:3}" -I crates/program/include \
        -c "$source" -o "$folder/$name.o" 2>"$folder/errors"; then
        verdict="clang: $(grep -m1 -o 'error: .*' "$folder/errors")"
        printf '%-20s %-9s %12s %12s  %s\n' "$name" "$loops" - - "$verdict"
        return
    fi
    if "$bpftool" prog loadall "$folder/$name.o" "$folder/pins/$name" >"$folder/log" 2>&1; then
        # Once more, for what the verifier says of objects that it accepts.
        rm -r "$folder/pins/$name"
        "$bpftool" -d prog loadall "$folder/$name.o" "$folder/pins/$name" >"$folder/log" 2>&1
        rm -r "$folder/pins/$name"
    else
        verdict=$(grep -a -m1 -oE '(program is too large|too complex|unbounded|invalid).*' \
            "$folder/log" || tail -1 "$folder/log")
    fi
    for bytes in $(llvm-objdump -h "$folder/$name.o" |
        awk '$2 == "syscall" || $2 == ".text" { print $3 }'); do
        size=$((size + 16#$bytes / 8))
    done
    # The operations are verified one by one; the sum is of those that were.
    looked=$({ grep -a -oE '^processed [0-9]+' "$folder/log" || true; } |
        awk '{ n += $2 } END { print n }')
    printf '%-20s %-9s %12s %12s  %s\n' "$name" "$loops" "$size" "$looked" "$verdict"
}

for source in programs/*.c; do
    offer "$source" iterators
    offer "$source" unrolled -DMB_UNROLL
done
