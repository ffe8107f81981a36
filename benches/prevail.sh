#!/usr/bin/env bash
# Has PREVAIL prove the example policies: benches/prevail.sh [POLICY]...
#
# Needs clang, llvm-objdump and prevail 0.2.6 (cargo install prevail). Each example is compiled with
# -DMB_KERNEL -DMB_UNROLL. Of each operation PREVAIL says whether it uses only memory that it may
# use, and whether it ends; TIME_LIMIT is the most for each question (default: 60 seconds).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
for tool in clang llvm-objdump prevail; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool is missing: apt-get install clang llvm; cargo install prevail" >&2
        exit 2
    fi
done
limit=${TIME_LIMIT:-60}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# What PREVAIL answers about an operation of an object.
ask() {
    local output code=0
    output=$(timeout "$limit" prevail "$@" 2>/dev/null) || code=$?
    case $code:$output in
        0:*PASS*) echo proven ;;
        124:*) echo "no answer in $limit s" ;;
        # The first failed check, which begins with the number of an instruction.
        *) grep -m1 -E '^[0-9]+( \(counter\))?: ' <<<"$output" || echo "failed with $code" ;;
    esac
}

names=("$@")
if ((!$#)); then
    for source in programs/*.c; do names+=("$(basename "$source" .c)"); done
fi
echo "$(prevail --version | head -1), $(clang --version | head -1)"
echo
echo '| example | instructions | operation | memory | end | seconds |'
echo '|---|--:|---|---|---|--:|'
for name in "${names[@]}"; do
    object=$folder/$name.o
    if ! clang --target=bpf -mcpu=v3 -O2 -g -DMB_KERNEL -DMB_UNROLL -I crates/program/include \
        -c "programs/$name.c" -o "$object" 2>"$folder/errors"; then
        echo "| \`$name\` | | | clang: $(grep -m1 -o 'error: .*' "$folder/errors") | | |"
        continue
    fi
    size=0
    for bytes in $(llvm-objdump -h "$object" |
        awk '$2 == "syscall" || $2 == ".text" { print $3 }'); do
        size=$((size + 16#$bytes / 8))
    done
    symbols=$(llvm-objdump -t "$object")
    for operation in choose submit complete init change; do
        grep -q "F syscall.* $operation\$" <<<"$symbols" || continue
        start=$SECONDS
        memory=$(ask -f "$object" syscall "$operation")
        end=$(ask -f --termination "$object" syscall "$operation")
        echo "| \`$name\` | $size | \`$operation\` | $memory | $end | $((SECONDS - start)) |"
    done
done
