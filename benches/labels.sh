#!/usr/bin/env bash
# What checksums cost: the same pair of files served with and without checksums, with fio's nbd
# engine as the client.
#
#   benches/labels.sh [--buffered] [--rounds N] [--folder DIR] [SECONDS]
#
# SECONDS is the length of each run, 5 if not given; N rounds, 2 if not given, of all runs there and
# back (A B B A), so that drift hits all alike. DIR holds 4 files of 1 GiB; a folder in /dev/shm
# with --buffered shows the cost in CPU time alone. Ratios are medians over pairs of neighbouring
# runs. Two more aims are looked at in a volume of 10 TB of sparse files: the time until it is
# ready, and what a start after a crash reads.
#
# Prints the figures and what is asked of them, and fails if that is not so. MIRRORBALL names the
# program, else the release build is made and used. It needs fio and, for the build, cargo.
rounds=2
buffered=()
while [[ ${1:-} == --* ]]; do
    case $1 in
        --buffered) buffered=(--buffered) ;;
        --rounds) rounds=$2; shift ;;
        --folder) export TMPDIR=$2; shift ;;
        *) echo "$1: no such option; there are --buffered, --rounds and --folder" >&2; exit 2 ;;
    esac
    shift
done
seconds=${1:-5}
variants=(labels checksums)

# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need fio:fio
build
exports=(--export "nbd:unix:$work/socket")
# The server competes with fio as a service does.
ahead=()

# make NAME SIZE: an array file of two members, "NAME.toml".
make() {
    local side
    printf 'profile = "raid1"\n' >"$work/$1.toml"
    for side in a b; do
        truncate -s "$2" "$work/$1-$side"
        printf '[[member]]\npath = "%s"\n' "$1-$side" >>"$work/$1.toml"
    done
}

# create NAME: writes labels.
create() {
    case $1 in
        labels*) "$MIRRORBALL" create "$work/$1.toml" >"$work/log" ;;
        checksums*) "$MIRRORBALL" create "$work/$1.toml" --checksums >"$work/log" ;;
    esac
}

start() {
    start_server serve "$work/$1-a" "$work/$1-b" "${buffered[@]}" --policy round-robin
}

# Ends the server as a crash does.
crash() {
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    server=""
    # The kernel closes what a ring still used a moment after the process ended.
    sleep 0.5
}

# User and system time of a process so far, its threads included, in clock ticks.
ticks() {
    awk '{ print $14 + $15 }' "/proc/$1/stat"
}

client() {
    fio --ioengine=nbd --uri="nbd+unix:///?socket=$work/socket" --size=1000M "$@"
}

# run VARIANT JOB FIO-OPTIONS...: adds a line "JOB VARIANT IOPS TICKS".
run() {
    local variant=$1 job=$2 before after
    shift 2
    start "$variant"
    before=$(ticks "$server")
    client --name="$job" --time_based --runtime="$seconds" --ramp_time=1 --output-format=terse \
        --terse-version=3 "$@" >"$work/out"
    after=$(ticks "$server")
    stop_server
    # Field 8 of terse output is read IOPS, 49 write IOPS.
    awk -F ';' -v job="$job" -v variant="$variant" -v ticks=$((after - before)) \
        '/^3;/ { print job, variant, $8 + $49, ticks }' "$work/out" >>"$work/figures"
}

compare() {
    local variant
    for variant in "${variants[@]}" checksums labels; do run "$variant" "$@"; done
}

# large NAME: how a volume of 10 TB starts, and what it reads after a crash. Adds lines
# "large NAME WHAT VALUE".
large() {
    local began active read deadline=$((SECONDS + 120))
    make "$1" 10T
    create "$1"
    # Writes in 250 regions, so that the tables and logs are not empty.
    start "$1"
    client --name=spread --rw=randwrite --bs=4k --iodepth=32 --number_ios=4000 --size=1000M \
        --output="$work/out"
    began=$(ask status)
    active=$(sed -n 's/.*"active_bytes": *\([0-9]*\).*/\1/p' <<<"$began")
    crash
    began=$(date +%s%N)
    start "$1"
    echo "large $1 ready_ms $((($(date +%s%N) - began) / 1000000))" >>"$work/figures"
    until "$MIRRORBALL" ctl --control "$work/control" status | grep -q 'in sync'; do
        ((SECONDS < deadline)) || return 1
        sleep 0.2
    done
    # Of each member, at most what was active.
    read=$(ask members |
        sed -n 's/.*"read_bytes": *\([0-9]*\).*/\1/p' | sort -n | tail -1)
    stop_server
    echo "large $1 active_bytes $active" >>"$work/figures"
    echo "large $1 read_bytes $read" >>"$work/figures"
    rm "$work/$1-a" "$work/$1-b"
}

load() {
    echo "load: $(cut -d ' ' -f 1-3 /proc/loadavg), on $(nproc) CPUs, members in $(dirname "$work")"
}

load
large labels-10T
large checksums-10T
for variant in "${variants[@]}"; do
    make "$variant" 1G
    create "$variant"
    # Written whole, so that no run allocates space.
    start "$variant"
    client --name=fill --rw=write --bs=1M --iodepth=4 --output="$work/out"
    stop_server
done
for ((round = 0; round < rounds; round++)); do
    compare randwrite-4k-qd32 --rw=randwrite --bs=4k --iodepth=32
    compare write-128k-qd8 --rw=write --bs=128k --iodepth=8
    compare randread-4k-qd32 --rw=randread --bs=4k --iodepth=32
    compare read-128k-qd8 --rw=read --bs=128k --iodepth=8
done
load

awk -v hertz="$(getconf CLK_TCK)" -v seconds="$seconds" '
    $1 == "large" { large[$2, $3] = $4; next }
    {
        n = ++count[$1, $2]; iops[$1, $2, n] = $3
        ticks[$1, $2] += $4; ios[$1, $2] += $3 * (seconds + 1)
        if (!seen[$1]++) jobs[++total] = $1
    }
    # The median over the runs of the ratio to the volume without checksums in the same half of a
    # round.
    function ratio(job, variant,    n, i, j, all, other) {
        n = count[job, variant]
        for (i = 1; i <= n; i++) {
            all[i] = iops[job, variant, i] / iops[job, "labels", i]
            for (j = i; j > 1 && all[j] < all[j - 1]; j--) {
                other = all[j]; all[j] = all[j - 1]; all[j - 1] = other
            }
        }
        return n % 2 ? all[(n + 1) / 2] : (all[n / 2] + all[n / 2 + 1]) / 2
    }
    function mean(job, variant,    i, sum) {
        for (i = 1; i <= count[job, variant]; i++) sum += iops[job, variant, i]
        return sum / count[job, variant]
    }
    function ask(what, value, holds, bound) {
        printf "%-4s %s: %s (%s)\n", holds ? "ok" : "FAIL", what, value, bound
        if (!holds) failed = 1
    }
    function ask_ratio(variant, job, least,    value, bound) {
        value = ratio(job, variant)
        bound = sprintf("at least %.2f", least)
        ask(variant ", " job, sprintf("%.3f", value), value >= least, bound)
    }
    END {
        printf "%-18s %-10s %10s %12s %8s\n", "job", "variant", "IOPS", "CPU us/I/O", "ratio"
        split("labels checksums", variants, " ")
        for (n = 1; n <= total; n++)
            for (v = 1; v <= 2; v++) {
                job = jobs[n]; variant = variants[v]
                printf "%-18s %-10s %10d %12.2f %8.3f\n", job, variant, mean(job, variant),
                    ticks[job, variant] / hertz / ios[job, variant] * 1e6, ratio(job, variant)
            }
        ask_ratio("checksums", "randwrite-4k-qd32", 0.8)
        ask_ratio("checksums", "write-128k-qd8", 0.8)
        ask_ratio("checksums", "randread-4k-qd32", 0.9)
        ask_ratio("checksums", "read-128k-qd8", 0.9)
        split("labels-10T checksums-10T", names, " ")
        for (n = 1; n <= 2; n++) {
            name = names[n]; ready = large[name, "ready_ms"]
            ask(name " is ready after a crash in", ready " ms", ready < 1000, "under 1000 ms")
            share = large[name, "read_bytes"] / (large[name, "active_bytes"] + 1)
            ask(name " read of a member, of its active bytes", sprintf("%.3f", share),
                share <= 1.02, "at most 1, and 0.4 % of checksums")
        }
        exit failed
    }' "$work/figures"
