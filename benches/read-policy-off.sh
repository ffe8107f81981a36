#!/bin/sh
# Compares what md raid1 and btrfs are compiled to without the option with the kernel's own source:
#
#   benches/read-policy-off.sh KERNEL KDIR ARCHIVE FOLDER
#
# KERNEL is the folder kernel/ of this repository, KDIR the kernel's headers, ARCHIVE the
# linux-source-VERSION.tar.xz, FOLDER a new folder.
# Every object of a file that `kernel/apply` edits is compiled from both sources, at one path, and
# compared byte by byte without debug information. Warnings have line numbers in objects, so each
# line that was there before keeps its number.
set -e
edits=$1
kdir=$2
archive=$3
folder=$4
objects="raid1.o btrfs/volumes.o btrfs/bio.o btrfs/disk-io.o btrfs/sysfs.o"

for source in own edited; do
    rm -rf "$folder/tree"
    mkdir -p "$folder/tree" "$folder/$source"
    tar -xf "$archive" -C "$folder/tree" --strip-components=1 --wildcards \
        '*/drivers/md/md*.h' '*/drivers/md/raid1*' '*/fs/btrfs/*'
    if [ $source = edited ]; then
        rm -rf "$folder/before"
        cp -r "$folder/tree" "$folder/before"
        "$edits/apply" "$folder/tree" | while read -r _ file; do
            awk 'NR == FNR { own[FNR] = $0; next }
                $0 != own[line + 1] { print; inserted = 1; next }
                { line++; if (inserted) print "#line " line; inserted = 0; print }' \
                "$folder/before/$file" "$folder/tree/$file" >"$folder/lines"
            mv "$folder/lines" "$folder/tree/$file"
        done
        cp "$edits"/*.h "$folder/tree"
    fi
    mv "$folder"/tree/drivers/md/* "$folder/tree/fs/btrfs" "$folder/tree"
    echo "obj-m := raid1.o btrfs/" >"$folder/tree/Makefile"
    # Several names.
    # shellcheck disable=SC2086
    make -s -j2 -C "$kdir" M="$folder/tree" KCFLAGS="-I$folder/tree" $objects
    for object in $objects; do
        objcopy --strip-debug "$folder/tree/$object" "$folder/$source/$(basename "$object")"
    done
done
for object in $objects; do
    name=$(basename "$object")
    code=$(size "$folder/own/$name" | awk 'NR == 2 { print $1 }')
    if cmp -s "$folder/own/$name" "$folder/edited/$name"; then
        echo "off,$name,$code bytes of code and constants, the same"
    else
        echo "off,$name,$code bytes of code and constants, NOT the same"
        size "$folder/own/$name" "$folder/edited/$name"
    fi
done
