#!/usr/bin/env bash
# The pairings of a random league that mirrorball/auto loses, run again with more seeds: which of
# the losses stay. The table in league/results/random-losses.md.
#
#   benches/league-seeds.sh SAMPLE SEED FOLDER [BELOW] [REPEATS]
#
# FOLDER has the results of `league --sample SAMPLE --seed SEED --all -o FOLDER` of the same build;
# what it lacks is run. Each pairing with a ratio under BELOW (0.75) is run against its best rival
# with REPEATS (20) seeds. The ratio is that of the geometric means over the seeds, with an interval
# of 95 % by Student's distribution of the logarithms, which are paired by seed. A few minutes.
# shellcheck source=benches/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
if (($# < 3)); then
    sed -n '2,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 2
fi
sample=(--sample "$1" --seed "$2")
folder=$(realpath "$3")
need python3:python3
build
cd "$work"
"$MIRRORBALL" league "${sample[@]}" --all --format json -o "$folder" >league.json
python3 - "$MIRRORBALL" "${4:-0.75}" "${5:-20}" "${sample[@]}" <<'PYTHON'
import collections
import csv
import json
import math
import re
import statistics
import subprocess
import sys

OWN = "mirrorball/auto"
program, below, repeats, sample = sys.argv[1], float(sys.argv[2]), sys.argv[3], sys.argv[4:]
# Student's 97.5 % quantile for 4, 9, 19 and more degrees of freedom.
quantile = {5: 2.776, 10: 2.262, 20: 2.093}.get(int(repeats), 2.0)


def entry(pairing, policy):
    return next(it for it in pairing["entries"] if it["policy"] == policy)


def values(properties):
    return ", ".join(it["value"] for it in properties)


def scores(pairing):
    number = str(pairing["number"])
    listed = subprocess.run([program, "league", *sample, "--pairing", number], check=True,
                            capture_output=True, text=True).stdout
    seed = re.search(r"--seed (\d+)", listed)[1]
    files = [f"sample-{sample[3]}-{number}.{suffix}" for suffix in ("toml", "fio")]
    policies = f"{OWN},{pairing['best']}"
    table = subprocess.run(
        [program, "compare", *files, "--policy", policies, "--repeats", repeats, "--seed", seed,
         "--format", "csv", "-o", f"results-{number}"],
        check=True, capture_output=True, text=True).stdout
    found = collections.defaultdict(dict)
    for row in csv.DictReader(table.splitlines()):
        if row["score"]:
            found[row["policy"]][row["seed"]] = max(float(row["score"]), 1e-9)
    return found


pairings = json.load(open("league.json"))["pairings"]
losses = [it for it in pairings if entry(it, OWN)["ratio"] < below]
rows = []
for pairing in losses:
    found = scores(pairing)
    own, best = found[OWN], found[pairing["best"]]
    ratios = [math.log(own[seed] / best[seed]) for seed in own if seed in best]
    mean = statistics.fmean(ratios)
    half = quantile * statistics.stdev(ratios) / math.sqrt(len(ratios))
    rows.append((math.exp(mean), math.exp(mean - half), math.exp(mean + half), pairing))
stays = sum(high < below for _, _, high, _ in rows)
print(f"{len(losses)} of {len(pairings)} pairings are under {below} in the sample; "
      f"{stays} of them are with {repeats} seeds, with 95 % confidence.\n")
print("| pairing | sample | ratio | 95 % | oracle-fair | best rival | array | job |")
print("| --: | --: | --: | :-- | --: | :-- | :-- | :-- |")
for ratio, low, high, pairing in sorted(rows, key=lambda row: row[0]):
    once, fair = entry(pairing, OWN)["ratio"], entry(pairing, "oracle-fair")["ratio"]
    print(f"| {pairing['number']} | {once:.2f} "
          f"| {ratio:.2f} | {low:.2f} to {high:.2f} | {fair:.2f} | {pairing['best']} "
          f"| {values(pairing['array'])} | {values(pairing['job'])} |")
PYTHON
