#!/bin/sh
# Copies what `mirrorball detect` reads of this machine into a folder, for tests.
#
#   benches/record-sysroot.sh FOLDER [NOTE]...
#
# FOLDER gets the tree: /proc and /sys with every symbolic link as the kernel has it, the links that
# udev makes in /dev, the output of the tools in `tools`, and the file ORIGIN: kernel, versions of
# the tools, commands and date, after the lines NOTE. Reads only; without root the outputs of tools
# that need it are missing. Runs under busybox, in a guest without another shell.
# Loop devices, RAM disks and CD drives are left out, unless an array lies on them; RECORD_DEVICES
# names the devices to record, instead of all.
# shellcheck shell=dash
set -u
# `local` is not POSIX, but dash, busybox and bash have it.
# shellcheck disable=SC3043

out=${1:?usage: record-sysroot.sh FOLDER [NOTE]...}
shift
mkdir -p "$out/tools"
out=$(cd "$out" && pwd)

# Copies files to their paths in the tree; /proc/self is a link, and becomes a folder.
copy() {
    local file
    for file in "$@"; do
        [ -f "$file" ] || continue
        mkdir -p "$out${file%/*}"
        cat "$file" >"$out$file" 2>/dev/null || rm -f "$out$file"
    done
}

# Copies a symbolic link, at the real path of the folder that it is in.
copy_link() {
    local link folder
    for link in "$@"; do
        [ -L "$link" ] || continue
        folder=$(readlink -f "${link%/*}")
        mkdir -p "$out$folder"
        [ -L "$out$folder/${link##*/}" ] || ln -s "$(readlink "$link")" "$out$folder/${link##*/}"
    done
}

# Copies the files NAME... of a folder.
copy_from() {
    local folder name
    folder=$(readlink -f "$1")
    shift
    mkdir -p "$out$folder"
    for name in "$@"; do
        [ -f "$folder/$name" ] || continue
        case $name in */*) mkdir -p "$out$folder/${name%/*}" ;; esac
        # Reads fail for attributes that are only written, and while a device goes away.
        cat "$folder/$name" >"$out$folder/$name" 2>/dev/null || rm -f "$out$folder/$name"
    done
    rmdir "$out$folder" 2>/dev/null
}

record_md() {
    local md=$1 member
    copy_from "$md" level raid_disks layout chunk_size component_size degraded sync_action \
        sync_completed sync_speed sync_speed_min sync_speed_max mismatch_cnt last_sync_action \
        array_state metadata_version bitmap/backlog bitmap/location bitmap_type
    for member in "$md"/dev-*; do
        copy_from "$member" state slot offset size
        copy_link "$member/block"
    done
    copy_link "$md"/rd[0-9]*
}

record_controller() {
    copy_from "$1" state transport address cntlid numa_node model serial firmware_rev subsysnqn
}

# Records a block device by its kernel name, and those that it lies on.
record_device() {
    local name=$1 folder below
    folder=$(readlink -f "/sys/class/block/$name")
    [ -d "$folder" ] || return
    case $recorded in *" $name "*) return ;; esac
    recorded="$recorded$name "
    copy_link "/sys/class/block/$name" "/sys/block/$name"
    # A path of an NVMe namespace has no number: it is hidden.
    if [ -f "$folder/dev" ]; then copy_link "/sys/dev/block/$(cat "$folder/dev")"; fi
    copy_from "$folder" size dev ro removable hidden stat inflight partition start serial \
        wwid nguid uuid nsid ana_state ana_grpid queue_depth numa_nodes \
        loop/backing_file loop/offset loop/dio dm/name dm/uuid dm/suspended
    case $name in
        # These hand requests on: they have no queue of their own.
        dm-*) copy_from "$folder/queue" rotational read_ahead_kb optimal_io_size ;;
        *) copy_from "$folder/queue" rotational scheduler read_ahead_kb nr_requests \
            logical_block_size physical_block_size optimal_io_size iostats zoned max_sectors_kb ;;
    esac
    copy_link "$folder"/slaves/* "$folder"/holders/* "$folder"/multipath/*
    if [ -L "$folder/device" ]; then
        copy_link "$folder/device"
        copy_from "$folder/device" model vendor rev serial firmware_rev
    fi
    if [ -f "$folder/partition" ]; then record_device "$(basename "${folder%/*}")"; fi
    if [ -d "$folder/md" ]; then record_md "$folder/md"; fi
    for below in "$folder"/slaves/*; do
        if [ -e "$below" ]; then record_device "${below##*/}"; fi
    done
}

# The devices of RECORD_DEVICES with what they lie on, or all.
record_devices() {
    local device
    if [ -n "${RECORD_DEVICES:-}" ]; then
        for device in $RECORD_DEVICES; do record_device "$device"; done
        return
    fi
    for device in /sys/class/block/*; do
        case ${device##*/} in loop* | ram* | zram* | sr* | fd*) continue ;; esac
        record_device "${device##*/}"
    done
}

# NVMe subsystems count if their devices are recorded.
wants_nvme() {
    [ -e /sys/class/nvme-subsystem ] || return 1
    case ${RECORD_DEVICES:-nvme} in *nvme*) return 0 ;; *) return 1 ;; esac
}

record_nvme() {
    local subsystem controller
    wants_nvme || return
    for subsystem in /sys/class/nvme-subsystem/*; do
        [ -e "$subsystem" ] || continue
        copy_link "$subsystem"
        copy_from "$subsystem" model serial firmware_rev subsysnqn subsystype iopolicy
        for controller in "$subsystem"/nvme*; do
            if [ -L "$controller" ]; then
                copy_link "$controller" "/sys/class/nvme/${controller##*/}"
                record_controller "$controller"
            fi
        done
    done
    copy /sys/module/nvme_core/parameters/iopolicy /sys/module/nvme_core/parameters/multipath
}

record_btrfs() {
    local filesystem name
    for filesystem in /sys/fs/btrfs/*-*; do
        [ -d "$filesystem" ] || continue
        copy_link "$filesystem"/devices/* "$filesystem/bdi"
        for name in "$filesystem"/devices/*; do record_device "${name##*/}"; done
        copy "$(readlink -f "$filesystem/bdi")/read_ahead_kb"
        copy_from "$filesystem" read_policy exclusive_operation sectorsize nodesize label \
            generation metadata_uuid temp_fsid
        for name in "$filesystem"/devinfo/*; do
            copy_from "$name" missing in_fs_metadata writeable replace_target error_stats fsid \
                scrub_speed_max
        done
        for name in data metadata system; do
            name=$filesystem/allocation/$name
            copy_from "$name" total_bytes bytes_used disk_total disk_used chunk_size
            copy "$name"/*/total_bytes "$name"/*/used_bytes
        done
    done
}

record_zfs() {
    if [ -d /sys/module/zfs ]; then
        copy /sys/module/zfs/version /sys/module/zfs/parameters/zfs_vdev_mirror_*
        copy /proc/spl/kstat/zfs/*/state /proc/spl/kstat/zfs/*/guid
        copy /proc/spl/kstat/zfs/vdev_mirror_stats
    fi
}

# Records the names of udev for devices of the device mapper: they are links to the device there,
# and device nodes where no udev runs.
record_names() {
    local device name volume
    for device in /sys/block/dm-*; do
        [ -e "$device" ] || continue
        name=$(cat "$device/dm/name")
        mkdir -p "$out/dev/mapper"
        ln -s "../${device##*/}" "$out/dev/mapper/$name"
        # Only a logical volume itself has a name of this kind, not what it consists of.
        case $(cat "$device/dm/uuid") in LVM-*-*) continue ;; LVM-*) ;; *) continue ;; esac
        case $name in *--* | *-*_rimage_* | *-*_rmeta_*) continue ;; esac
        volume=${name#*-}
        mkdir -p "$out/dev/${name%%-*}"
        ln -s "../${device##*/}" "$out/dev/${name%%-*}/$volume"
    done
}

# Keeps the output of a command in the file tools/FILE, if the command exists and succeeds.
tool() {
    local file=$1
    shift
    command -v "$1" >/dev/null || return
    if "$@" >"$out/tools/$file" 2>/dev/null && [ -s "$out/tools/$file" ]; then
        commands="$commands  tools/$file: $*
"
    else
        rm -f "$out/tools/$file"
    fi
}

lvs_columns=vg_name,lv_name,lv_attr,lv_size,segtype,stripes,stripe_size,region_size,devices
lvs_columns=$lvs_columns,copy_percent,raid_sync_action,raid_mismatch_count,raid_write_behind
lvs_columns=$lvs_columns,lv_health_status,lv_dm_path,lv_kernel_minor

record_tools() {
    local device
    for device in /sys/block/md*/md; do
        [ -e "$device" ] || continue
        device=${device%/md}
        tool "mdadm-detail-${device##*/}" mdadm --detail "/dev/${device##*/}"
    done
    if ls /sys/block/dm-* >/dev/null 2>&1; then
        tool dmsetup-table dmsetup table
        tool dmsetup-status dmsetup status
        tool lvs.json lvs -a --reportformat json --units b --nosuffix -o "$lvs_columns"
    fi
    if ls -d /sys/fs/btrfs/*-* >/dev/null 2>&1; then
        tool btrfs-filesystem-show btrfs filesystem show --mounted --raw
    fi
    if wants_nvme; then
        tool nvme-list-subsys.json nvme list-subsys -o json
    fi
    if [ -d /sys/module/zfs ]; then
        tool zpool-status zpool status -LP
        tool zpool-list zpool list -Hp -o name,size,allocated
    fi
}

# The version that a tool says it has, if it is there.
version() {
    command -v "$1" >/dev/null || return
    printf '  %s\n' "$("$@" 2>&1 | sed -n 's/^ *//; /[0-9]\.[0-9]/{p;q}')"
}

write_origin() {
    local note
    {
        for note in "$@"; do printf '%s\n' "$note"; done
        echo
        echo "Recorded on $(date -u +%Y-%m-%d) by benches/record-sysroot.sh."
        echo "Kernel: $(uname -sr), $(uname -v)"
        echo "Tools:"
        version mdadm --version
        if [ -e /dev/mapper/control ]; then version lvm version; fi
        version btrfs --version
        if wants_nvme; then version nvme version; fi
        version zfs version
        if [ -n "$commands" ]; then printf 'Outputs:\n%s' "$commands"; fi
        echo "Empty folders (slaves, holders) are left out. Links in /dev are as udev makes them."
    } >"$out/ORIGIN"
}

recorded=" "
commands=""
copy /proc/self/mountinfo /proc/mdstat /proc/version /proc/sys/kernel/osrelease
record_devices
record_nvme
record_btrfs
record_zfs
record_names
record_tools
write_origin "$@"
