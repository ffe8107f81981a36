#!/usr/bin/env python3
"""Counts how often `advise` gives the same advice with other seeds.

Draws arrays as people build them (two to four disks of the built-in models, under md, LVM, btrfs,
ZFS or gmirror), asks `advise` about each with several seeds, and prints a row for each array: the
setting that most seeds name, how many seeds name it, and how many name one whose gain is within
2 % of it, which is a tie.

    benches/advice-seeds.py [--arrays 50] [--first 1] [--seeds 10] [--budget 15s] [--whole] PROGRAM

Without --whole only the settings of the array's own system are compared, which decide what is
offered; with it also the policies of others, which decide what is best known.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import tempfile

TIE = 0.02
HARD_DISKS = ["hdd-5k4", "hdd-5k4-4tb", "hdd-7k2-4tb", "hdd-7k2-desktop", "hdd-7k2-ent", "hdd-smr"]
FLASH = [
    "ssd-sata-consumer", "ssd-sata-dramless", "ssd-sata-plp", "ssd-sata-qlc", "nvme-gen3",
    "nvme-gen4",
]
# Those of `advise` without a job, named: times of a scrub and a rebuild are not measured then.
JOBS = [
    name + background
    for background in ["", "-scrub"]
    for name in ["rand-4k-qd1", "rand-4k-qd32", "seq-read", "four-streams"]
]
SYSTEMS = {
    "md": "md-raid1",
    "lvm": "lvm-raid1",
    "zfs": "zfs-mirror",
    "gmirror": "gmirror",
    "btrfs": "btrfs",
}


def draw(number):
    """Text and system of array `number`."""
    dice = random.Random(number)
    system = dice.choice(list(SYSTEMS))
    count = dice.choice([2, 2, 2, 3, 3, 4])
    pool = dice.choice([HARD_DISKS, FLASH, HARD_DISKS + FLASH])
    models = [dice.choice(pool) for _ in range(count)]
    layout = 'profile = "raid1"' if system == "btrfs" else f'layout = "{SYSTEMS[system]}"'
    if system == "zfs" and count > 2:
        layout = f'layout = "zfs-mirror:{count}"'
    text = f'name = "array-{number}"\n{layout}\n[source]\nsystem = "{system}"\n'
    return text + "".join(f'[[member]]\nmodel = "{model}"\n' for model in models), system, models


def advice(program, folder, number, seed, whole, budget):
    """The setting offered and its gain, and the policy best known."""
    command = [program, "advise", f"array-{number}.toml", *JOBS]
    command += ["--seed", str(seed), "--budget", budget, "--format", "json"]
    if not whole:
        command += ["--policy", "first"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)["array"]["advice"]
    offered, known = answer["offered"], answer["known"]
    gain = offered["factor"] or 1.0
    return offered["spec"], gain, known["spec"] if whole and known else None


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("program", type=pathlib.Path)
    arguments.add_argument("--arrays", type=int, default=50)
    arguments.add_argument("--first", type=int, default=1)
    arguments.add_argument("--seeds", type=int, default=10)
    arguments.add_argument("--budget", default="15s")
    arguments.add_argument("--whole", action="store_true")
    args = arguments.parse_args()
    same = tied = known_same = total = 0
    print("| array | disks | most seeds name | same | same or tied | best known |")
    print("|---|---|---|--:|--:|---|")
    for number in range(args.first, args.arrays + 1):
        text, system, models = draw(number)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, f"array-{number}.toml").write_text(text)
            # Far apart: the repeats of a seed take the seeds after it.
            seeds = [1 + 1000 * index for index in range(args.seeds)]
            program = args.program.resolve()
            given = [
                advice(program, folder, number, seed, args.whole, args.budget) for seed in seeds
            ]
        setting, count = collections.Counter(one[0] for one in given).most_common(1)[0]
        gains = [gain for spec, gain, _ in given if spec == setting]
        mean = sum(gains) / len(gains)
        near = sum(abs(gain / mean - 1) <= TIE for spec, gain, _ in given if spec != setting)
        known = collections.Counter(str(one[2]) for one in given).most_common()
        same, tied, total = same + count, tied + count + near, total + len(given)
        known_same += known[0][1]
        names = ", ".join(f"{name} {times}" for name, times in known) if args.whole else ""
        print(
            f"| {system} {number} | {', '.join(models)} | `{setting}` {mean:.2f} | {count} "
            f"| {count + near} | {names} |",
            flush=True,
        )
    print(f"\nSame setting in {same} of {total} answers, same or tied in {tied}", end="")
    print(f"; same best known in {known_same}" if args.whole else "")


if __name__ == "__main__":
    main()
