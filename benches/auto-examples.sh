#!/usr/bin/env bash
# Pairings in which the first edition of `mirrorball/auto` starved a reader or lost to a simpler
# policy, simulated again under every policy: the table in docs/paper.md.
#
#   benches/auto-examples.sh [SEEDS]           runs of each cell; 5 if not given
#
# Each ratio is of the geometric means over the seeds.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seeds=${1:-5}

build

# array FILE-NAME PROFILE MODEL...
array() {
    local name=$1 profile=$2 model
    shift 2
    {
        echo "profile = \"$profile\""
        for model in "$@"; do
            printf '[[member]]\nmodel = "%s"\nsize = "300GB"\n' "$model"
        done
    } >"$work/$name.toml"
}

# job FILE-NAME RUNTIME "SECTION OPTION..."...
job() {
    local name=$1 runtime=$2 section word
    shift 2
    {
        printf '%s\n' '[global]' ioengine=libaio direct=1 norandommap time_based \
            ramp_time=2 "runtime=$runtime" group_reporting
        for section in "$@"; do
            echo "[${section%% *}]"
            for word in ${section#* }; do echo "$word"; done
        done
    } >"$work/$name.fio"
}

array three-unequal-hdd raid1 hdd-7k2-ent hdd-7k2-desktop hdd-5k4
job lone-4k-randrw-1m 60 "lone rw=randread bs=4k iodepth=1" "deep rw=randrw bs=1m iodepth=4"
array six-hdd raid1 hdd-7k2-ent hdd-7k2-desktop hdd-7k2-ent hdd-5k4 hdd-7k2-desktop hdd-7k2-ent
job lone-4k-two-deep 60 "lone rw=randread bs=4k iodepth=1" "small rw=randread bs=4k iodepth=8" \
    "large rw=randread bs=256k iodepth=8"
array seven-5k4-raid1c3 raid1c3 hdd-5k4 hdd-5k4 hdd-5k4 hdd-5k4 hdd-5k4 hdd-5k4 hdd-5k4
job lone-4k-deep-64k 60 "lone rw=randread bs=4k iodepth=1" "deep rw=randread bs=64k iodepth=32"
array unlike-ssd raid1 ssd-sata-consumer ssd-sata-plp
job writer-scan-small 5 "writer rw=write bs=16k iodepth=1 fsync=1 size=10%" \
    "scan rw=read bs=512k iodepth=2 offset=20% size=30%" "small rw=randread bs=4k iodepth=4"
array consumer-ssd-pair raid1 ssd-sata-consumer ssd-sata-consumer
job write-50-qd16 5 "half rw=randrw rwmixread=50 bs=4k iodepth=16"
printf 'profile = "raid10"\n[[member]]\nmodel = "hdd-7k2-ent"\ncount = 8\n' \
    >"$work/raid10-eight.toml"
job seq-16-direct 20 "streams rw=read bs=128k iodepth=4 numjobs=16 size=6% offset_increment=6%"

cells=(
    "three-unequal-hdd.toml lone-4k-randrw-1m.fio"
    "six-hdd.toml lone-4k-two-deep.fio"
    "seven-5k4-raid1c3.toml lone-4k-deep-64k.fio"
    "hetero-hdd-raid1 rand-4k-qd1-defrag"
    "raid10-eight.toml seq-16-direct.fio"
    "unlike-ssd.toml writer-scan-small.fio"
    "consumer-ssd-pair.toml write-50-qd16.fio"
)

echo "| array | job | auto | best rival | least section | p99 |"
echo "| :-- | :-- | --: | :-- | --: | --: |"
cd "$work"
for cell in "${cells[@]}"; do
    read -r array job <<<"$cell"
    "$MIRRORBALL" compare "$array" "$job" --repeats "$seeds" --format csv --output "results-$job" \
        2>/dev/null >cells.csv
    python3 - cells.csv "${array%.toml}" "${job%.fio}" <<'PYTHON'
import collections
import csv
import math
import sys

OWN = "mirrorball/auto"
rows = [row for row in csv.DictReader(open(sys.argv[1])) if row["policy"] != "oracle"]
scores = collections.defaultdict(dict)
sections = collections.defaultdict(list)
tails = collections.defaultdict(list)
for row in rows:
    policy, section, seed = row["policy"], row["section"], row["seed"]
    if row["score"]:
        scores[policy][seed] = float(row["score"])
    if row["requests"] == "read" and row["iops"]:
        sections[policy, section].append(float(row["iops"]))
        tails[policy, section].append(float(row["p99_us"]))


def mean(values):
    values = list(values)
    return math.exp(sum(math.log(max(value, 1e-9)) for value in values) / len(values))


rivals = {policy: mean(of.values()) for policy, of in scores.items() if "mirrorball/" not in policy}
best = max(rivals, key=rivals.get)
read = [section for policy, section in sections if policy == OWN]
ratio = lambda table: [mean(table[OWN, name]) / mean(table[best, name]) for name in read]
own = mean(scores[OWN].values()) / rivals[best]
print(f"| `{sys.argv[2]}` | `{sys.argv[3]}` | {own:.2f} | {best} "
      f"| {min(ratio(sections)):.2f} | {max(ratio(tails)):.2f} |")
PYTHON
done
