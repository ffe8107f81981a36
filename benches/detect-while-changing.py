#!/usr/bin/env python3
"""`mirrorball detect` while arrays come and go: no wrong array, and no hang.

    benches/detect-while-changing.py MIRRORBALL [DETECTS, 100 by default]

Needs root and btrfs. Two file systems lie on four files. At random, one of them is unmounted, its
loop devices are detached and its files attached again in another order, so that the names of
devices change hands; it is mounted; or a device is added or removed. Meanwhile `detect` runs
again and again. Each array that it finds must have existed, with these devices, at a moment of its
run. An error is right only if something changed during the run, or if no array was there.
"""

import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

LIMIT_S = 10
MIRRORBALL = sys.argv[1]
DETECTS = int(sys.argv[2]) if len(sys.argv) > 2 else 100


def call(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Arrays:
    """The arrays, and which devices they had, when."""

    def __init__(self, folder):
        self.folder = folder
        self.rng = random.Random(1)
        self.loops = {}
        self.members = {"one": ["a", "b"], "two": ["c", "d"]}
        self.mounted = set()
        # (from, until, {fsid: devices}) of times without a change.
        self.states, self.since = [], None
        self.lock, self.stopped = threading.Lock(), threading.Event()
        for name in "abcde":
            with open(folder / name, "wb") as file:
                file.truncate(400 << 20)
            self.attach(name)
        self.fsids = {}
        for label, files in self.members.items():
            devices = [self.loops[name] for name in files]
            call("mkfs.btrfs", "-q", "-f", "-L", label, "-d", "raid1", "-m", "raid1", *devices)
            self.fsids[label] = call("blkid", "-p", "-s", "UUID", "-o", "value", devices[0])
            (folder / f"on-{label}").mkdir()

    def attach(self, name):
        self.loops[name] = call("losetup", "-f", "--show", str(self.folder / name))

    def mount(self, label):
        for name in self.members[label]:
            call("btrfs", "device", "scan", self.loops[name])
        call("mount", self.loops[self.members[label][0]], str(self.folder / f"on-{label}"))
        self.mounted.add(label)

    def unmount(self, label):
        call("umount", str(self.folder / f"on-{label}"))
        self.mounted.remove(label)

    def step(self):
        label = self.rng.choice(["one", "two"])
        path = str(self.folder / f"on-{label}")
        spare = [name for name in "abcde" if not any(name in it for it in self.members.values())]
        if label not in self.mounted:
            files = self.members[label] + spare
            for name in files:
                call("losetup", "-d", self.loops.pop(name))
            self.rng.shuffle(files)
            for name in files:
                self.attach(name)
            self.mount(label)
        elif self.rng.random() < 0.6:
            self.unmount(label)
        elif spare:
            call("btrfs", "device", "add", "-f", self.loops[spare[0]], path)
            self.members[label] += spare
        elif len(self.members[label]) == 3:
            gone = self.rng.choice(self.members[label])
            call("btrfs", "device", "remove", self.loops[gone], path)
            self.members[label].remove(gone)

    def state(self):
        return {
            self.fsids[label]: sorted(self.loops[name] for name in self.members[label])
            for label in self.mounted
        }

    def change(self):
        while not self.stopped.is_set():
            with self.lock:
                self.since = time.monotonic()
            time.sleep(self.rng.uniform(0, 0.3))
            with self.lock:
                self.states.append((self.since, time.monotonic(), self.state()))
                self.since = None
            self.step()

    def at(self, begin, end):
        """The states between two times, and the one that there was all the time."""
        with self.lock:
            states = list(self.states)
            if self.since is not None:
                states.append((self.since, time.monotonic(), self.state()))
        during = [it for it in states if it[0] <= end and it[1] >= begin]
        stable = next((it[2] for it in during if it[0] <= begin and it[1] >= end), None)
        # A change that took all of the run begins and ends with these.
        before = [it for it in states if it[1] < begin][-1:]
        after = [it for it in states if it[0] > end][:1]
        return [it[2] for it in before + during + after], stable


def devices_of(array):
    """The members, and the devices without data, which are named in a note."""
    empty = [re.search(r"\((/dev/\S+)\) holds nothing", note) for note in array["notes"]]
    return sorted([it["device"] for it in array["members"]] + [it[1] for it in empty if it])


def wrong(ran, states, stable):
    """What is wrong with a run of `detect`, given the states that there were."""
    arrays = json.loads(ran.stdout)["arrays"] if ran.returncode == 0 else []
    found = {it["id"]: devices_of(it) for it in arrays}
    for fsid, devices in found.items():
        if all(state.get(fsid) != devices for state in states):
            return f"{fsid} of {devices} was {[state.get(fsid) for state in states]}"
    if stable is not None and found != stable:
        return f"exit code {ran.returncode}, {found} at rest: {ran.stderr}"
    if not found and all(states) and "try again later" not in ran.stderr:
        return f"exit code {ran.returncode}, no array: {ran.stderr}"
    return None


def main():
    with tempfile.TemporaryDirectory() as folder:
        arrays = Arrays(pathlib.Path(folder))
        changer = threading.Thread(target=arrays.change)
        changer.start()
        runs = []
        try:
            while len(runs) < DETECTS and changer.is_alive():
                begin = time.monotonic()
                ran = subprocess.run(
                    [MIRRORBALL, "detect", "--json"], capture_output=True, text=True, timeout=LIMIT_S
                )
                runs.append((begin, time.monotonic(), ran))
                time.sleep(arrays.rng.uniform(0, 0.1))
        finally:
            arrays.stopped.set()
            changer.join()
            for label in list(arrays.mounted):
                arrays.unmount(label)
            for loop in arrays.loops.values():
                call("losetup", "-d", loop)
    judged = [(ran, *arrays.at(begin, end)) for begin, end, ran in runs]
    faults = [it for it in (wrong(*it) for it in judged) if it]
    longest = max(end - begin for begin, end, _ in runs)
    at_rest = sum(stable is not None for _, _, stable in judged)
    print(f"{len(runs)} runs, {len(runs) - at_rest} during a change, {len(arrays.states)} changes,")
    print(f"the longest took {longest:.2f} s; {len(faults)} wrong", *faults, sep="\n  ")
    sys.exit(bool(faults) or len(runs) < DETECTS)


main()
