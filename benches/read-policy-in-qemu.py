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
SYSTEMS = {"md": 'layout = "md-raid1"', "btrfs": 'profile = "raid1"'}
ARRAY = """\
name = "delays"
{system}
[host]
overhead = "500us"
"""
MEMBER = """\
[[member]]
model = "delay"
size = "4GiB"
rotational = true
set = {{ service = "{ms}ms", servers = 1 }}
"""
# Slow in seconds 10 to 20 of every 40; the guest's script knows these times.
SLOW = ", ".join(f'{{ slow = 8.0, from = "{s}s", until = "{s + 10}s" }}'
                 for s in range(10, 3600, 40))

JOBS = {
    "rand-qd1": "rw=randread\nbs=4k\niodepth=1",
    "rand-qd8": "rw=randread\nbs=4k\niodepth=8",
    "rand-4x4": "rw=randread\nbs=4k\niodepth=4\nnumjobs=4",
    "read-128k": "rw=read\nbs=128k\niodepth=4",
    "randrw-qd8": "rw=randrw\nrwmixread=70\nbs=4k\niodepth=8",
}

# The built-in policy of the simulator that each program repeats.
SIMULATED = {
    "builtin": None,
    "md-raid1": "md/raid1",
    "nvme-queue-depth": "nvme/queue-depth",
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
    for name, system in SYSTEMS.items():
        (folder / f"{name}.toml").write_text(
            ARRAY.format(system=system) + MEMBER.format(ms=2) + MEMBER.format(ms=6))
    (folder / "unequal.toml").write_text(
        ARRAY.format(system=SYSTEMS["md"]) + "".join(MEMBER.format(ms=ms) for ms in (2, 6, 2, 2))
        + f"fault = [{SLOW}]\n")
    for name, lines in JOBS.items():
        (folder / f"{name}.fio").write_text(
            f"[global]\nioengine=io_uring\ndirect=1\ntime_based\nruntime={seconds}\n"
            f"size=256m\nrandrepeat=0\ngroup_reporting\n\n[{name}]\n{lines}\n")


def simulated(program, folder, array):
    """Share of the first member, in percent, by policy and job."""
    found = {}
    policies = ",".join(sorted(set(SIMULATED.values()) - {None}))
    for job in JOBS:
        text = subprocess.run(
            [program, "compare", f"{folder}/{array}.toml", f"{folder}/{job}.fio", "-p", policies,
             "--format", "json", "--repeats", "3"], check=True, capture_output=True).stdout
        for cell in json.loads(text)["cells"]:
            shares = found.setdefault((cell["policy"], job), [])
            shares.append(100 * cell["members"][0]["share"])
    return {key: sum(shares) / len(shares) for key, shares in found.items()}


def shares(program, folder, lines):
    """Prints the shares of the members next to those of the simulation."""
    expected = {array: simulated(program, folder, array) for array in {line[1] for line in lines}}
    print("\n| array | job | policy | IOPS | share of the fast member, % | simulated, % |"
          " difference |\n|---|---|---|--:|--:|--:|--:|")
    for _, array, job, policy, iops, first, second in lines:
        share = 100 * int(first) / max(int(first) + int(second), 1)
        built_in = {"md": "md/raid1", "btrfs": "btrfs/pid"}[array]
        simulation = expected[array][SIMULATED[policy] or built_in, job]
        print(f"| {array} | `{job}` | `{policy}` | {float(iops):.0f} | {share:.1f} |"
              f" {simulation:.1f} | {share - simulation:+.1f} |")


def unequal(found):
    """Prints what the workloads of the thread on btrfs' balancing had."""
    if "randrw" in found:
        print("\n| members | array | policy | reads a second; share of the first, % |"
              " while the second is slow | afterwards |\n|---|---|---|--:|--:|--:|")
    for _, members, array, policy, *parts in found.get("randrw", []):
        cells = [f"{rate}; {share}" for rate, share in zip(parts[::2], parts[1::2])]
        print(f"| {members} | {array} | `{policy}` | {' | '.join((cells + ['', ''])[:3])} |")
    if "defrag" in found:
        print("\n| members | policy | seconds | reads of the first | of the second |\n"
              "|---|---|--:|--:|--:|")
    for _, members, *policy, time, first, second in found.get("defrag", []):
        print(f"| {members} | {','.join(policy)} | {int(time) / 100:.1f} | {first} | {second} |")


def tests(lines):
    """Prints the outcome of mdadm's tests under each module."""
    kinds = list(dict.fromkeys(line[1] for line in lines))
    found = {}
    for _, kind, name, outcome in lines:
        found.setdefault(name, {})[kind] = outcome
    if lines:
        print(f"\n| test | {' | '.join(kinds)} |\n|---|{'---|' * len(kinds)}")
    for name, outcomes in found.items():
        print(f"| `{name}` | {' | '.join(outcomes.get(kind, '') for kind in kinds)} |")


def table(program, folder, console):
    """Prints the tables of a run."""
    found = {}
    for line in Path(console).read_text().splitlines():
        line = line.rpartition("\x1b[2J")[2].rpartition("\x1b[0m")[2].split(",")
        found.setdefault(line[0], []).append(line)
    for kind, head in (
            ("verifier", "| program | verifier |\n|---|---|"),
            ("hostile", "\n| program | outcome |\n|---|---|"),
            ("shown", "\n| array | what programs are shown |\n|---|---|"),
            ("swaps", "\n| swaps | |\n|---|---|"),
            ("off", "\n| object | option off |\n|---|---|")):
        if kind in found:
            print(head)
        for line in found.get(kind, []):
            print(f"| `{line[1]}` | {', '.join(line[2:])} |")
    if "replay" in found:
        print("\n| program | recorded reads | choices that differ |\n|---|--:|--:|")
    for _, program_name, reads, differences, _ in found.get("replay", []):
        print(f"| `{program_name}` | {reads} | {differences} |")
    if "count" in found:
        # The first has cold caches.
        base = float(found["count"][-1][2])
        print("\n| policy | instructions of a read | above the built-in rule |\n|---|--:|--:|")
        for _, policy, count in found["count"][1:]:
            print(f"| `{policy}` | {float(count):.0f} | {float(count) - base:+.0f} |")
    unequal(found)
    tests(found.get("tests", []))
    if "share" in found:
        shares(program, folder, found["share"])


if __name__ == "__main__":
    {"inputs": inputs, "table": table}[sys.argv[1]](*sys.argv[2:])
