# The start of every guest's script, sourced from /bin/guest.sh: mounts, and how a failure is shown.
# shellcheck shell=dash

/bin/busybox --install -s /bin
export PATH=/bin:/sbin
ln -s /bin /sbin 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mkdir -p /run/lvm /run/lock
cd /run || exit
exec 2>&1

# Ends the guest with the output of the last command and the kernel's last messages.
fail() {
    echo "== failed: $*"
    tail -n 40 /run/output
    dmesg | tail -n 30
    poweroff -f
}

# Runs a command, and shows its output only if it failed.
try() {
    "$@" >/run/output 2>&1 </dev/null || fail "$*"
}

# Attaches the SCSI disks in the order of their numbers, so that they get their names in that order:
# the kernel itself probes them all at a time. Sets $disks to their names.
attach_disks() {
    # A kernel may have them built in.
    for module in virtio_pci virtio_scsi; do modprobe $module 2>/dev/null; done
    echo 0 >/sys/bus/scsi/drivers_autoprobe
    modprobe sd_mod 2>/dev/null
    disks=""
    # Paths of sysfs, without spaces.
    # shellcheck disable=SC2012
    for address in $(ls -d /sys/bus/scsi/devices/*:*:*:* | sort -t : -k 3n -k 4n); do
        echo "${address##*/}" >/sys/bus/scsi/drivers/sd/bind
        disks="$disks $(ls "$address/block")"
    done
    disks=${disks# }
    [ -n "$disks" ] || fail "no disks"
}

# Binds the controller of each path of NVMe, in this order, so that the first has the number 0. The
# second of three is one that the kernel refuses.
bind_paths() {
    driver=/sys/bus/pci/drivers/nvme
    # One word for each controller.
    # shellcheck disable=SC2046
    set -- $(cd /sys/bus/pci/devices && grep -l 0x010802 -- */class | sed 's,/class,,' | sort)
    [ $# = 3 ] || fail "$# NVMe controllers"
    for function in "$@"; do echo "$function" 2>/dev/null >$driver/unbind; done
    sleep 1
    echo "$1" >$driver/bind
    sleep 1
    echo "$3" >$driver/bind
    sleep 2
}
