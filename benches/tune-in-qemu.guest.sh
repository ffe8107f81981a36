#!/bin/busybox sh
# What the guest of tune-in-qemu.sh does, as its first and only process but for udev.
#
# Boot 1 of a system makes the arrays, shows, applies, lists and undoes a setting, and applies it
# again; boot 2 finds it in force, and undoes it; boot 3 finds it gone.
# shellcheck shell=dash

# shellcheck source=benches/guest.sh
. /bin/guest.sh

word() { sed -n "s/.*$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

# All that can be set on an array of this name: files of the kernel but for counters, tables, and
# the files in /etc.
knobs() {
    for folder in /sys/block/"${1#/dev/}"/md /sys/block/"${1#/dev/}"/queue; do
        # What md counts, or changes by itself.
        find "$folder/" -type f -perm -200 2>/dev/null | grep -v \
            -e array_state -e /errors -e safe_mode -e sync_action -e /bitmap/ -e new_dev | sort |
            while read -r file; do echo "$file: $(cat "$file" 2>/dev/null)"; done
    done
    cat /sys/class/nvme-subsystem/*/iopolicy /sys/module/nvme_core/parameters/iopolicy 2>/dev/null
    dmsetup table 2>/dev/null | sort
    lvs -a --noheadings -o name,attr 2>/dev/null
    find /etc -type f ! -path "/etc/lvm/*" -exec md5sum {} + | sort -k 2
}

# Fails unless the knobs of an array are those of an earlier moment, within 10 s: multipathd loads a
# table after it has answered.
expect() {
    waited=0
    knobs "$1" >/run/now
    until diff "/var/$2" /run/now >/run/output; do
        waited=$((waited + 1))
        [ $waited -le 10 ] || fail "$1: another than $2"
        sleep 1
        knobs "$1" >/run/now
    done
    [ $waited = 0 ] || echo "    ($waited s later)"
    echo "    $1: all $(wc -l </run/now) lines of settings are as $2"
}

tune() {
    echo "    # tune $*"
    mirrorball tune "$@" >/run/output 2>&1 </dev/null || fail "tune $*"
    sed 's/^/        /' /run/output
}

# What a boot does with an array, a setting, and a name for it.
kept() {
    path=$1
    spec=$2
    name=$3
    case $boot in
        1)
            knobs "$path" >"/var/$name-before"
            tune "$path" --policy "$spec" --persist
            expect "$path" "$name-before"
            tune "$path" --policy "$spec" --persist --apply
            knobs "$path" >"/var/$name-applied"
            diff "/var/$name-before" "/var/$name-applied" | sed -n 's/^[<>]/    &/p'
            tune --status
            tune "$path" --undo
            expect "$path" "$name-before"
            try mirrorball tune "$path" --policy "$spec" --persist --apply
            expect "$path" "$name-applied" ;;
        2)
            expect "$path" "$name-applied"
            tune "$path" --status
            tune "$path" --undo
            expect "$path" "$name-before" ;;
        3) expect "$path" "$name-before" ;;
    esac
}

# The array of these members, made in the first boot.
md() {
    path=$1
    shift
    if [ "$boot" = 1 ]; then
        try mdadm --create "$path" --run --metadata=1.2 --level=1 --raid-devices=$# \
            --assume-clean --bitmap=internal "$@"
    else
        try mdadm --assemble "$path" "$@"
    fi
}

# The volume of these disks, made in the first boot.
lvm_volume() {
    if [ "$boot" = 1 ]; then
        try pvcreate -ff -y "$@"
        try vgcreate vg "$@"
        try lvcreate -y -Wn -Zn --type raid1 -m 1 --nosync -l 99%FREE -n lv vg "$@"
        # The table of a new volume has words that it loses.
        try vgchange -an vg
    fi
    try vgchange -ay vg
}

# Flags of the members of an array, a line each.
flags() {
    case $1 in
        /dev/md*) cat /sys/block/"${1#/dev/}"/md/dev-*/state ;;
        *) dmsetup table vg-lv | grep -o "write_mostly [0-9]*" ;;
    esac
}

# Looks again and again whether all members of an array have the flag.
watch_flags() {
    while usleep 200000; do
        flags "$1" >"/run/seen-$2"
        [ "$(grep -c write_mostly "/run/seen-$2")" -lt "$3" ] || echo "all flagged" >>"/run/bad"
    done
}

# Kills `tune --apply` while the tool that it has started has not changed anything yet.
killed_in_tool() {
    before=$(flags vg/lv)
    rm /bin/lvchange
    printf '%s\n' '#!/bin/sh' 'touch /run/started' 'sleep 2' 'exec lvm lvchange "$@"' >/bin/lvchange
    chmod +x /bin/lvchange
    mirrorball tune vg/lv --policy md/raid1+write-mostly:1 --apply >/run/output 2>&1 &
    service=$!
    until [ -e /run/started ]; do usleep 100000; done
    kill -KILL $service
    sleep 20
    mirrorball tune --status >/run/output 2>&1
    [ "$(flags vg/lv)" = "$before" ] || fail "killed while lvchange ran: $(flags vg/lv) stays"
    echo "== tune killed while lvchange ran: as before"
}

# Reads an array: more than a slow member carries, and less than the others do.
start_load() {
    fio --name=load --filename="$1" --rw=randread --bs=4k --direct=1 --ioengine=libaio \
        --iodepth=32 --rate_iops=30 --rate_process=poisson --time_based --runtime=10h \
        --write_lat_log="/run/load-$2" --log_avg_msec=0 >/dev/null 2>&1 &
    load=$!
}

# Seconds since the emulation of the disks was started; the clock of the guest is set in between.
emulated() { echo $(($(cut -d . -f 1 /proc/uptime) + offset)); }

# Waits until then.
until_emulated() { while [ "$(emulated)" -lt "$1" ]; do usleep 200000; done; }

# Starts the service of an array, with further options.
start_service() {
    path=$1
    name=$2
    shift 2
    mirrorball tune "$path" --auto --apply --state "/var/$name.json" "$@" \
        >>"/run/events-$name" 2>&1 &
    service=$!
}

# Kills the service of an array with so many members at random moments, every second time soon after
# it has set a flag, and every fourth time with --keep. Until a member becomes slow, one service has
# learned what the disks take.
killed() {
    path=$1
    name=$2
    members=$3
    before=$(flags "$path")
    watch_flags "$path" "$name" "$members" &
    watcher=$!
    start_load "$path" "$name"
    start_service "$path" "$name"
    until_emulated 145
    kill -INT $service
    wait $service
    until_emulated 150
    avoided=0
    slowest=0
    for number in $(seq "$kills"); do
        keep=""
        [ $((number % 4)) != 2 ] || keep=--keep
        # One word or none.
        # shellcheck disable=SC2086
        start_service "$path" "$name" $keep
        most=28
        if [ $((number % 2)) = 0 ]; then
            most=4
            until [ "$(flags "$path")" != "$before" ]; do
                kill -0 $service || fail "$name: the service ended: $(cat "/run/events-$name")"
                usleep 200000
            done
        fi
        usleep "$(awk -v seed="$members$number" -v most=$most \
            'BEGIN { srand(seed); print int(rand() * most * 1e6) }')"
        kill -0 $service || fail "$name: the service ended: $(cat "/run/events-$name")"
        at_kill=$(flags "$path")
        kill -KILL $service
        killed_at=$(cut -d . -f 1 /proc/uptime)
        if [ "$at_kill" != "$before" ]; then avoided=$((avoided + 1)); fi
        if [ -n "$keep" ]; then
            sleep 3
            [ "$at_kill" = "$before" ] || [ "$(flags "$path")" = "$at_kill" ] ||
                fail "$name, kill $number: $at_kill was not kept"
            mirrorball tune "$path" --undo >"/run/undo-$name" 2>&1
        fi
        until [ "$(flags "$path")" = "$before" ]; do
            waited=$(($(cut -d . -f 1 /proc/uptime) - killed_at))
            [ $waited -lt 60 ] || fail "$name, kill $number: $(flags "$path") after $waited s"
            [ -n "$keep" ] || [ $waited -le "$slowest" ] || slowest=$waited
            usleep 200000
        done
        # A tool that the service had started may still run.
        sleep 3
        [ "$(flags "$path")" = "$before" ] || fail "$name, kill $number: $(flags "$path") later"
    done
    kill $watcher $load
    [ ! -e /run/bad ] || fail "$name: all members had the flag"
    grep -v -e stay -e start "/run/events-$name" | tail -n 2 | cut -c 1-300
    echo "== $name: $kills kills, $avoided while a member was avoided; restored in $slowest s"
}

# The p99 of reads from one moment of the emulation until another, in milliseconds.
p99() {
    awk -F , -v from=$((($1 - load_at) * 1000)) -v until=$((($2 - load_at) * 1000)) \
        '$1 >= from && $1 < until { print $2 / 1e6 }' /run/load-auto_lat.1.log | sort -n >/run/waits
    awk -v count="$(wc -l </run/waits)" 'NR == int(count * 0.99) { print $1 " ms of " count }' \
        /run/waits
}

# The service under a member that is 4 times as slow for 90 s, three times; then no service.
auto() {
    path=/dev/md0
    start_load $path auto
    load_at=$(emulated)
    start_service $path auto
    for from in 200 400 600; do
        until_emulated $from
        until flags "$path" | grep -q write_mostly || [ "$(emulated)" -ge $((from + 90)) ]; do
            sleep 1
        done
        echo "    slow at $from s: avoided after $(($(emulated) - from)) s"
        until_emulated $((from + 95))
        # In place of a wait: the usual setting is tried again after 15 minutes.
        date -s "@$(($(date +%s) + 3600))" >/dev/null
        while flags "$path" | grep -q write_mostly && [ "$(emulated)" -lt $((from + 150)) ]; do
            sleep 1
        done
        at=$(($(emulated) - from))
        sleep 40
        echo "    read again after $at s; 40 s later: $(flags "$path" | tr '\n' ' ')"
    done
    kill -INT $service
    wait $service
    until_emulated 890
    # The best setting, with a member that is not slow.
    echo writemostly >/sys/block/md0/md/dev-sda/state
    until_emulated 960
    kill -INT $load
    wait $load
    for from in 200 400 600; do
        echo "== p99 from 30 s after the onset at $from s: $(p99 $((from + 30)) $((from + 90)))"
    done
    echo "== p99 without a service: $(p99 830 890); slow disk avoided all the time: $(p99 900 960)"
    echo "== p99 without a fault: $(p99 140 200)"
    grep -v stay /run/events-auto | cut -c 1-400
}

attach() {
    attach_disks
    for module in raid1 dm_raid; do try modprobe $module; done
}

start_udev() {
    mkdir -p /run/udev
    udevd --daemon
    udevadm trigger --action=add
    udevadm settle
}

system=$(word system)
boot=$(word boot)
kills=$(word kills)
for module in virtio_pci virtio_blk ext4; do modprobe $module 2>/dev/null; done
try mount -t ext4 /dev/vda /tmp
[ -d /tmp/etc ] || cp -a /etc /tmp/etc
mkdir -p /tmp/var /var
mount --bind /tmp/etc /etc
mount --bind /tmp/var /var
offset=$(($(date +%s) - $(word started) - $(cut -d . -f 1 /proc/uptime)))
case $system in
    md)
        attach
        md /dev/md0 /dev/sda /dev/sdb
        md /dev/md1 /dev/sdc /dev/sdd /dev/sde
        kept /dev/md0 md/raid1+write-mostly:1 two
        kept /dev/md1 md/raid1+write-mostly:1 three ;;
    nvme)
        start_udev
        modprobe nvme
        bind_paths
        udevadm settle
        kept "/dev/$(cd /sys/block && echo nvme?n1)" nvme/round-robin nvme ;;
    dm)
        attach_disks
        for module in multipath service-time queue-length round-robin; do
            try modprobe dm-$module
        done
        start_udev
        # Without these it waits for a second path, and has one path in each group.
        printf 'defaults {\n\t%s\n}\n' "find_multipaths no
            user_friendly_names yes
            path_grouping_policy multibus" >/etc/multipath.conf
        try multipathd
        until dmsetup table 2>/dev/null | grep -q multipath; do sleep 1; done
        sleep 3
        kept "$(dmsetup ls --target multipath | cut -f 1)" dm/queue-length dm ;;
    lvm)
        attach
        lvm_volume /dev/sda /dev/sdb
        kept vg/lv md/raid1+write-mostly:1 lvm
        if [ "$boot" = 3 ]; then killed_in_tool; fi ;;
    kill)
        attach
        md /dev/md0 /dev/sda /dev/sdb
        md /dev/md1 /dev/sdc /dev/sdd /dev/sde
        lvm_volume /dev/sdf /dev/sdg
        killed /dev/md0 md-two 2 &
        two=$!
        killed /dev/md1 md-three 3 &
        three=$!
        killed /dev/vg/lv lvm 2 &
        wait $! $two $three ;;
    auto)
        attach
        md /dev/md0 /dev/sda /dev/sdb
        auto ;;
esac
sync
sleep 1
echo "== all is well"
poweroff -f
