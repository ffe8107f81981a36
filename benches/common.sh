# Shared by the scripts here; sourced, not run.
#
# MIRRORBALL names the program; without it the release build is made and used. All files are in a
# folder that is removed when the script ends, after servers have stopped.
# shellcheck shell=bash

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
# How a server exports what it serves.
exports=(--export "fuse:$work/mount")
server=""
mounted=""

finish() {
    local status=$?
    if [[ -n $mounted ]]; then umount "$mounted" || true; fi
    stop_server || true
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT

# Stops unless these programs, each PROGRAM:PACKAGE, are installed.
need() {
    local pair
    for pair in "$@"; do
        if ! command -v "${pair%%:*}" >/dev/null; then
            echo "${pair%%:*} is missing: apt-get install ${pair##*:}" >&2
            exit 2
        fi
    done
    if [[ ! -e /dev/fuse ]]; then
        echo "this kernel has no /dev/fuse" >&2
        exit 2
    fi
}

# What is measured against a clock goes before other work of this machine, if it may.
ahead=()
if chrt --rr 10 true 2>/dev/null; then ahead=(chrt --rr 10); fi

need_loop_devices() {
    if ((EUID)) || [[ ! -e /dev/loop-control ]]; then
        echo "loop devices are made by root only; this needs them" >&2
        exit 2
    fi
}

need_filesystem() {
    modprobe "$1" 2>/dev/null || true
    if ! grep -qw "$1" /proc/filesystems; then
        echo "this kernel has no $1" >&2
        exit 2
    fi
}

build() {
    if [[ -z ${MIRRORBALL:-} ]]; then
        cargo build --quiet --locked --release --manifest-path "$root/Cargo.toml"
        MIRRORBALL=${CARGO_TARGET_DIR:-$root/target}/release/mirrorball
    fi
    "$MIRRORBALL" --version
}

# Starts a server of these arguments, and waits until it is ready.
start_server() {
    : >"$work/log"
    "${ahead[@]}" "$MIRRORBALL" "$@" "${exports[@]}" --control "$work/control" 2>"$work/log" &
    server=$!
    until grep -qx ready "$work/log"; do
        if ! kill -0 "$server" 2>/dev/null; then
            cat "$work/log" >&2
            server=""
            return 1
        fi
        sleep 0.05
    done
}

stop_server() {
    if [[ -n $server ]]; then
        kill -TERM "$server"
        wait "$server"
        server=""
    fi
}

# The loop devices of the running server, in the order of the members.
devices() {
    sed -n 's,^.* bytes at \(/dev/loop.*\)$,\1,p' "$work/log"
}

# The answer of the running server to a question, as JSON.
ask() {
    "$MIRRORBALL" ctl --control "$work/control" "$@" --format json
}
