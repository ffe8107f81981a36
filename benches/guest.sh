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
    cat /run/output
    dmesg | tail -n 30
    poweroff -f
}

# Runs a command, and shows its output only if it failed.
try() {
    "$@" >/run/output 2>&1 </dev/null || fail "$*"
}
