#!/usr/bin/env bash
# The closed loop: probe the members of three arrays, predict from the fitted models, and measure
# the arrays under real kernels.
#
#   benches/closed-loop.sh [--output FOLDER] [md] [btrfs]      seconds of each run: SECONDS_EACH=20
#
# The disks are emulated, and `probe` does not know their parameters. An md RAID1 of a 7,200 and a
# 5,400 rpm disk and an md RAID10 of two of each are created and measured in QEMU by kernel-in-qemu,
# which writes a recipe with the fitted models in the place of the true ones. A btrfs RAID1 of the
# two is made on this machine, and measured by `bench`. With --output, the recipe with fitted models
# and the tables are kept. As root, because of loop devices and priority. It takes about half an
# hour.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds=${SECONDS_EACH:-20}
output=""
if [[ ${1:-} == --output ]]; then
    output=${2:?--output needs a folder}
    shift 2
fi
parts=("$@")
if ((${#parts[@]} == 0)); then parts=(md btrfs); fi

need fio:fio mkfs.btrfs:btrfs-progs python3:python3
need_loop_devices
need_filesystem btrfs
build
export MIRRORBALL

models=(hdd-7k2-desktop hdd-5k4)
# The probe goes before other work, but not before the server.
urgent=()
if ((${#ahead[@]})); then urgent=(chrt --rr 5); fi

# An array of md with COUNT disks of each model.
array() {
    printf 'name = "%s"\nlayout = "%s"\n' "$1" "$2"
    if [[ $2 == md-raid10* ]]; then echo 'chunk = "512K"'; fi
    for _ in $(seq "$3"); do
        for model in "${models[@]}"; do printf '[[member]]\nmodel = "%s"\n' "$model"; done
    done
}

# Puts fitted profiles, which are in the folder of an array file, in the place of its models.
with_fitted_models() {
    local model
    for model in "${models[@]}"; do
        sed -i "s/^model = \"$model\"/model = \"$model.toml\"/" "$1"
    done
}

probe() {
    "${urgent[@]}" "$MIRRORBALL" probe "$1" --force -o "$2" >"$work/probe.log" 2>&1 || {
        cat "$work/probe.log"
        return 1
    }
    sed -n 's/^# \(Verdict: .*\)/  \1/p' "$2"
}

md_in_qemu() {
    echo "== probe: two emulated disks"
    mkdir -p "$work/true"
    for model in "${models[@]}"; do
        start_server emulate "$model"
        echo "$model"
        probe "$(sed -n 's,^.* bytes at ,,p' "$work/log")" "$work/fitted/$model.toml"
        stop_server
    done

    echo "== md raid1 and raid10 in QEMU"
    array closed-loop-md-raid1 md-raid1 1 >"$work/true/closed-loop-md-raid1.toml"
    array closed-loop-md-raid10 md-raid10-near:2 2 >"$work/true/closed-loop-md-raid10.toml"
    "$root/benches/kernel-in-qemu" --seconds "$seconds" --size 65536 --output "$work/recipe" \
        --models "$work/fitted" \
        --title "md on two kinds of disks, measured to be predicted" "$work"/true/*.toml |
        tee "$work/recipe.txt"
}

btrfs_here() {
    echo "== btrfs RAID1 on this machine"
    {
        printf 'name = "closed-loop-btrfs"\nprofile = "raid1"\n[host]\nread_ahead_kb = 4096\n'
        for model in "${models[@]}"; do
            printf '[[member]]\nmodel = "%s"\nsize = "64G"\n' "$model"
        done
    } >"$work/btrfs.toml"
    start_server emulate "$work/btrfs.toml" --members --loop
    mapfile -t disks < <(devices)
    for number in 0 1; do
        echo "devid $((number + 1))"
        # Not the loop device on it, whose kernel thread is late, and which splits reads of 1 MiB.
        probe "$work/mount/member-$((number + 1))" "$work/fitted/${models[number]}.toml"
    done
    cp "$work/btrfs.toml" "$work/fitted/btrfs.toml"
    sed -i '/^size = /d' "$work/fitted/btrfs.toml"
    with_fitted_models "$work/fitted/btrfs.toml"
    mkfs.btrfs --quiet --force --data raid1 --metadata raid1 "${disks[@]}" >"$work/mkfs" 2>&1
    mkdir -p "$work/filesystem"
    mount -o nossd "${disks[0]}" "$work/filesystem"
    mounted=$work/filesystem
    for name in rand-4k-qd1 rand-4k-qd32; do
        sed -e "s/^runtime=.*/runtime=$seconds/" -e "s/^\[.*\]/[$name]/" "$root/jobs/$name.fio" \
            >"$work/$name.fio"
        echo "size=1g" >>"$work/$name.fio"
    done
    # Each seed draws the number of a process, which `bench` takes in equal parts.
    "$MIRRORBALL" compare "$work/fitted/btrfs.toml" "$work"/rand-4k-qd{1,32}.fio \
        --policy btrfs/pid --repeats 200 --duration 5s \
        -o "$work/predicted" >"$work/compare.out"
    "${urgent[@]}" "$MIRRORBALL" bench "$mounted" "$work"/rand-4k-qd{1,32}.fio --size 1GiB \
        --rounds 6 --settle 2s --measure "${seconds}s" --lateness-max 500us \
        -o "$work/measured" | tee "$work/bench.txt"
    "$MIRRORBALL" report "$work/predicted" "$work/measured" --format table |
        tee -a "$work/bench.txt"
    umount "$mounted"
    mounted=""
    stop_server
}

mkdir -p "$work/fitted" "$work/mount"
for part in "${parts[@]}"; do
    case $part in
        md) md_in_qemu ;;
        btrfs) btrfs_here ;;
        *) echo "$part: give md or btrfs" >&2 && exit 2 ;;
    esac
done
if [[ -n $output ]]; then
    mkdir -p "$output"
    for kept in recipe recipe.csv recipe.txt bench.txt fitted; do
        if [[ -e $work/$kept ]]; then cp -r "$work/$kept" "$output"; fi
    done
fi
