#!/usr/bin/env python3
"""Jobs and tables of read-policy-in-qemu.sh.

read-policy-in-qemu.py inputs FOLDER SECONDS
read-policy-in-qemu.py table MIRRORBALL FOLDER CONSOLE
"""
import json
import subprocess
import sys
from pathlib import Path

# Two disks of known speed: one request at a time, whatever its size. A request takes about 0.5 ms
# more around its disk, in a guest whose CPU is emulated.
ARRAY = """\
name = "delays of 2 ms and 6 ms, md raid1"
layout = "md-raid1"
[host]
overhead = "500us"
""" + "".join(f"""\
[[member]]
model = "delay"
size = "4GiB"
rotational = true
set = {{ service = "{service}", servers = 1 }}
""" for service in ("2ms", "6ms"))

JOBS = {
    "rand-qd1": "rw=randread\nbs=4k\niodepth=1",
    "rand-qd8": "rw=randread\nbs=4k\niodepth=8",
    "rand-4x4": "rw=randread\nbs=4k\niodepth=4\nnumjobs=4",
    "read-128k": "rw=read\nbs=128k\niodepth=4",
    "randrw-qd8": "rw=randrw\nrwmixread=70\nbs=4k\niodepth=8",
}

# The built-in policy of the simulator that each program repeats.
SIMULATED = {
    "builtin": "md/raid1",
    "md-raid1": "md/raid1",
    "btrfs-pid": "btrfs/pid",
    "btrfs-round-robin": "btrfs/round-robin",
    "latency-rr": "kakra/latency-rr",
    "gmirror-load": "gmirror/load",
    "bcachefs-latency": "bcachefs/inverse-square-latency",
    "peak-ewma": "research/peak-ewma",
    "mirrorball-auto": "mirrorball/auto",
}


def inputs(folder, seconds):
    """Writes the array file and the job files."""
    folder = Path(folder)
    folder.mkdir()
    (folder / "array.toml").write_text(ARRAY)
    for name, lines in JOBS.items():
        (folder / f"{name}.fio").write_text(
            f"[global]\nioengine=io_uring\ndirect=1\ntime_based\nruntime={seconds}\n"
            f"size=256m\nrandrepeat=0\ngroup_reporting\n\n[{name}]\n{lines}\n")


def simulated(program, folder):
    """Share of the first member, in percent, and IOPS, by policy and job."""
    found = {}
    policies = ",".join(sorted(set(SIMULATED.values())))
    for job in JOBS:
        text = subprocess.run(
            [program, "compare", f"{folder}/array.toml", f"{folder}/{job}.fio", "-p", policies, "--format", "json",
             "--repeats", "3"], check=True, capture_output=True).stdout
        for cell in json.loads(text)["cells"]:
            shares, iops = found.setdefault((cell["policy"], job), ([], []))
            shares.append(100 * cell["shares"][0]["share"])
            iops.append(cell["score"])
    return {key: [sum(values) / len(values) for values in both] for key, both in found.items()}


def table(program, folder, console):
    """Prints the tables of a run."""
    lines = [line.split(",") for line in Path(console).read_text().splitlines() if "," in line]
    expected = simulated(program, folder)
    print("| program | verifier |\n|---|---|")
    for line in lines:
        if line[0] == "verifier":
            print(f"| `{line[1]}` | {','.join(line[2:])} |")
    print("\n| array | job | policy | IOPS | share of the fast member, % | simulated, % |"
          " difference |\n|---|---|---|--:|--:|--:|--:|")
    for line in lines:
        if line[0] != "share":
            continue
        _, array, job, policy, iops, first, second = line
        share = 100 * int(first) / max(int(first) + int(second), 1)
        simulated_share = expected[SIMULATED[policy], job][0]
        print(f"| {array} | `{job}` | `{policy}` | {float(iops):.0f} | {share:.1f} |"
              f" {simulated_share:.1f} | {share - simulated_share:+.1f} |")


if __name__ == "__main__":
    {"inputs": inputs, "table": table}[sys.argv[1]](*sys.argv[2:])
